// SPDX-License-Identifier: BSD-3-Clause
#include "libstep/store/key_store.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "libstep/core/text.h"

namespace dist_train {
namespace {

bool valid_key(const std::string& key) {
  return !key.empty() && key.size() <= STEP_KEY_MAX && key.find('\0') == std::string::npos;
}

Waiter nobody_waits(std::uint32_t rank, std::uint32_t id) { return {rank, id, 0, {}}; }

const Error kBadKey{"the store refused a key that is empty, too long or contains a zero byte",
                    "use keys of 1 to " + std::to_string(STEP_KEY_MAX) + " bytes"};
const Error kBadValue{"the store refused a value of more than " + std::to_string(STEP_VALUE_MAX) +
                          " bytes",
                      "split it into several keys"};

} // namespace

void KeyStore::store(const std::string& key, std::string value, std::vector<Answer>& out) {
  const auto body = std::make_shared<const std::string>(std::move(value));
  const bool fresh = values_.insert_or_assign(key, body).second;
  if (!fresh)
    return;
  auto [first, last] = pending_.equal_range(key);
  std::vector<Pending> woken;
  for (auto it = first; it != last; ++it)
    woken.push_back(std::move(it->second));
  pending_.erase(first, last);
  for (auto& pending : woken)
    proceed(std::move(pending), out);
}

Answer KeyStore::value_answer(const Pending& pending) const {
  const Body& value = values_.at(pending.keys.front());
  if (value->size() > pending.capacity)
    return {pending.waiter.rank, pending.waiter.id, STEP_ERR_TOO_SMALL,
            std::make_shared<const std::string>(encode_number(value->size()))};
  return {pending.waiter.rank, pending.waiter.id, STEP_OK, value};
}

void KeyStore::proceed(Pending pending, std::vector<Answer>& out) {
  while (pending.next < pending.keys.size() && values_.contains(pending.keys[pending.next]))
    ++pending.next;
  if (pending.next == pending.keys.size()) {
    out.push_back(pending.wants_value ? value_answer(pending) : answer(pending.waiter));
    return;
  }
  earliest_ = std::min(earliest_, pending.waiter.deadline);
  const std::string key = pending.keys[pending.next];
  pending_.emplace(key, std::move(pending));
}

void KeyStore::begin(Pending pending, std::vector<Answer>& out) {
  if (!std::all_of(pending.keys.begin(), pending.keys.end(), valid_key))
    return out.push_back(failure(pending.waiter, STEP_ERR_PROTOCOL, kBadKey));
  const auto missing =
      std::find_if_not(pending.keys.begin(), pending.keys.end(),
                       [&](const std::string& key) { return values_.contains(key); });
  if (missing == pending.keys.end())
    return proceed(std::move(pending), out);
  if (pending.waiter.wait_ms == 0)
    return out.push_back(
        failure(pending.waiter, STEP_ERR_NOT_FOUND,
                {"there is no key " + quoted(*missing), "set it first, or wait for it"}));
  if (const auto lost = roster_.someone_gone() ? roster_.all(Presence::kLost)
                                               : std::vector<std::uint32_t>();
      !lost.empty())
    return out.push_back(
        failure(pending.waiter, STEP_ERR_LOST,
                {"waiting for key " + quoted(*missing) + ": " + roster_.describe(lost) +
                     (lost.size() == 1 ? " was lost" : " were lost"),
                 "look for the first error of that rank; the step cannot go on without it"}));
  proceed(std::move(pending), out);
}

void KeyStore::handle(std::uint32_t rank, std::uint32_t id, SetKey request,
                      std::vector<Answer>& out) {
  const Waiter to = nobody_waits(rank, id);
  if (!valid_key(request.key))
    return out.push_back(failure(to, STEP_ERR_PROTOCOL, kBadKey));
  if (request.value.size() > STEP_VALUE_MAX)
    return out.push_back(failure(to, STEP_ERR_PROTOCOL, kBadValue));
  out.push_back(answer(to));
  store(request.key, std::move(request.value), out);
}

void KeyStore::handle(std::uint32_t rank, std::uint32_t id, const AddKey& request,
                      std::vector<Answer>& out) {
  const Waiter to = nobody_waits(rank, id);
  if (!valid_key(request.key))
    return out.push_back(failure(to, STEP_ERR_PROTOCOL, kBadKey));
  std::int64_t sum = 0;
  if (const auto found = values_.find(request.key); found != values_.end()) {
    const std::string& text = *found->second;
    const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), sum);
    if (code != std::errc{} || end != text.data() + text.size())
      return out.push_back(failure(to, STEP_ERR_ARGUMENT,
                                   {"cannot add to key " + quoted(request.key) + ": its value " +
                                        quoted(text) + " is not a decimal 64-bit number",
                                    "use another key for counting"}));
  }
  if (__builtin_add_overflow(sum, request.delta, &sum))
    return out.push_back(failure(to, STEP_ERR_ARGUMENT,
                                 {"adding " + std::to_string(request.delta) + " to key " +
                                  quoted(request.key) + " leaves the 64-bit range"}));
  out.push_back(answer(to, encode_number(static_cast<std::uint64_t>(sum))));
  store(request.key, std::to_string(sum), out);
}

void KeyStore::handle(std::uint32_t rank, std::uint32_t id, CompareAndSet request,
                      std::vector<Answer>& out) {
  const Waiter to = nobody_waits(rank, id);
  if (!valid_key(request.key))
    return out.push_back(failure(to, STEP_ERR_PROTOCOL, kBadKey));
  if (request.desired.size() > STEP_VALUE_MAX)
    return out.push_back(failure(to, STEP_ERR_PROTOCOL, kBadValue));
  const auto found = values_.find(request.key);
  const bool swaps = found == values_.end()
                         ? request.missing
                         : !request.missing && *found->second == request.expected;
  out.push_back(answer(to, encode_number(swaps)));
  if (swaps)
    store(request.key, std::move(request.desired), out);
}

void KeyStore::handle(std::uint32_t rank, std::uint32_t id, const DeleteKey& request,
                      std::vector<Answer>& out) {
  out.push_back(answer(nobody_waits(rank, id), encode_number(values_.erase(request.key))));
}

void KeyStore::handle(std::uint32_t rank, std::uint32_t id, const CountKeys&,
                      std::vector<Answer>& out) {
  out.push_back(answer(nobody_waits(rank, id), encode_number(values_.size())));
}

void KeyStore::handle(std::uint32_t rank, std::uint32_t id, GetKey request, TimePoint now,
                      std::vector<Answer>& out) {
  begin({Waiter::of(rank, id, request.wait_ms, now),
         {std::move(request.key)},
         0,
         true,
         request.capacity},
        out);
}

void KeyStore::handle(std::uint32_t rank, std::uint32_t id, WaitKeys request, TimePoint now,
                      std::vector<Answer>& out) {
  begin({Waiter::of(rank, id, request.wait_ms, now), std::move(request.keys)}, out);
}

void KeyStore::expire(TimePoint now, std::vector<Answer>& out) {
  if (now < earliest_)
    return;
  earliest_ = TimePoint::max();
  for (auto it = pending_.begin(); it != pending_.end();) {
    const Waiter& waiter = it->second.waiter;
    if (waiter.deadline > now) {
      earliest_ = std::min(earliest_, waiter.deadline);
      ++it;
      continue;
    }
    const auto absent = roster_.all(Presence::kAbsent);
    out.push_back(failure(
        waiter, STEP_ERR_TIMEOUT,
        {"key " + quoted(it->first) + " was not set within " + seconds_text(waiter.wait_ms) +
             (absent.empty() ? "" : "; not here: " + roster_.describe(absent)),
         absent.empty() ? "all ranks are here: see what the one that sets it is doing"
                        : "see why those ranks did not start or did not call step_open()"}));
    it = pending_.erase(it);
  }
}

void KeyStore::fail_waiters(const Error& error, std::vector<Answer>& out) {
  for (const auto& [key, pending] : pending_)
    out.push_back(failure(pending.waiter, STEP_ERR_LOST,
                          {"waiting for key " + quoted(key) + ": " + error.message, error.hint}));
  pending_.clear();
  earliest_ = TimePoint::max();
}

void KeyStore::forget(std::uint32_t rank) {
  std::erase_if(pending_, [&](const auto& entry) { return entry.second.waiter.rank == rank; });
}

} // namespace dist_train
