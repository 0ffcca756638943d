// SPDX-License-Identifier: BSD-3-Clause
// What the store does for ranks that are in: keys, those who wait for them, collectives, ranks that
// leave or are lost, time. Beside it runs the simplest model of the keys. Input: the world's size,
// then requests.
#include "libstep/store/collectives.h"
#include "libstep/store/key_store.h"
#include "tests/fuzz/check.h"

#include <fuzzer/FuzzedDataProvider.h>
#include <map>
#include <set>

using namespace dist_train;
using namespace dist_train::fuzz;

namespace {

class Step {
public:
  explicit Step(std::uint32_t world)
      : roster_(std::vector<std::string>(world, "node")), keys_(roster_), collectives_(roster_) {
    for (std::uint32_t rank = 0; rank < world; ++rank)
      roster_.mark(rank, Presence::kHere);
  }

  void run(FuzzedDataProvider& input) {
    for (int i = 0; i < 60 && input.remaining_bytes() > 0; ++i) {
      rank_ = input.ConsumeIntegralInRange<std::uint32_t>(0, roster_.world() - 1);
      auto what = input.ConsumeIntegralInRange<int>(0, 11);
      if (what == 9)
        pass(std::chrono::milliseconds(input.ConsumeIntegralInRange(0, 2000)));
      else if (what >= 10)
        leave(what == 10 ? Presence::kLeft : Presence::kLost);
      else if (roster_.of(rank_) == Presence::kHere)
        ask(input, what);
      require(keys_.next_deadline() <= first_deadline(true) &&
                  collectives_.next_deadline() <= first_deadline(false),
              "no deadline is slept through");
    }
    pass(std::chrono::hours(1)); // longer than any of the times asked for
    for (const auto& [to, waiting] : waiting_)
      require(waiting.deadline == TimePoint::max(), "who gave a time has an answer by then");
    for (std::uint32_t rank = 1; rank < roster_.world(); ++rank) {
      rank_ = rank;
      leave(Presence::kLost);
    }
    if (!roster_.all(Presence::kLost).empty())
      require(waiting_.empty(), "nobody waits for a rank that was lost");
  }

private:
  struct Waiting {
    TimePoint deadline;
    bool for_keys;
  };

  std::string key(FuzzedDataProvider& input) {
    auto pick = input.ConsumeIntegralInRange<int>(0, 7);
    return pick < 6    ? std::string(1, static_cast<char>('a' + pick))
           : pick == 6 ? input.ConsumeRandomLengthString(40)
                       : std::string(STEP_KEY_MAX + 1, 'k');
  }
  std::int64_t wait(FuzzedDataProvider& input) {
    auto pick = input.ConsumeIntegralInRange<int>(-1, 3);
    return pick < 3 ? pick * 500 : input.ConsumeIntegral<std::int64_t>() % 3'000'000;
  }
  static bool valid(const std::string& key) {
    return !key.empty() && key.size() <= STEP_KEY_MAX && key.find('\0') == key.npos;
  }

  void ask(FuzzedDataProvider& input, int what) {
    ++id_;
    std::vector<Answer> out;
    std::optional<std::string> expected; // the body, of an answer that must come at once
    auto k = key(input);
    auto value = input.ConsumeRandomLengthString(12);
    auto found = model_.find(k);
    bool good = valid(k);
    TimePoint deadline = TimePoint::max();
    switch (what) {
    case 0:
      keys_.handle(rank_, id_, SetKey{k, value}, out);
      if (good)
        model_[k] = value, expected = "";
      break;
    case 1: {
      auto delta = input.ConsumeIntegral<std::int64_t>();
      keys_.handle(rank_, id_, AddKey{k, delta}, out);
      require(!out.empty(), "an addition is answered at once");
      if (out.front().kind == STEP_OK) {
        auto old = found == model_.end() ? 0 : std::strtoll(found->second.c_str(), nullptr, 10);
        std::int64_t sum = 0;
        require(good && !__builtin_add_overflow(old, delta, &sum), "a sum that was possible");
        model_[k] = std::to_string(sum);
        expected = encode_number(static_cast<std::uint64_t>(sum));
      }
      break;
    }
    case 2: {
      bool missing = input.ConsumeBool();
      auto desired = input.ConsumeRandomLengthString(12);
      keys_.handle(rank_, id_, CompareAndSet{k, missing, value, desired}, out);
      bool swaps = found == model_.end() ? missing : !missing && found->second == value;
      if (good) {
        expected = encode_number(swaps);
        if (swaps)
          model_[k] = desired;
      }
      break;
    }
    case 3:
      keys_.handle(rank_, id_, DeleteKey{k}, out);
      expected = encode_number(model_.erase(k));
      break;
    case 4:
      keys_.handle(rank_, id_, CountKeys{}, out);
      expected = encode_number(model_.size());
      break;
    case 5: {
      auto capacity = input.ConsumeIntegralInRange<std::uint64_t>(0, 14);
      auto ms = wait(input);
      deadline = Waiter::of(rank_, id_, ms, now_).deadline;
      waiting_[{rank_, id_}] = {deadline, true};
      keys_.handle(rank_, id_, GetKey{k, capacity, ms}, now_, out);
      if (good && found != model_.end())
        expected =
            found->second.size() <= capacity ? found->second : encode_number(found->second.size());
      break;
    }
    case 6: {
      WaitKeys request;
      request.keys = {k};
      while (request.keys.size() < 4 && input.ConsumeBool())
        request.keys.push_back(key(input));
      request.wait_ms = wait(input);
      deadline = Waiter::of(rank_, id_, request.wait_ms, now_).deadline;
      waiting_[{rank_, id_}] = {deadline, true};
      keys_.handle(rank_, id_, std::move(request), now_, out);
      break;
    }
    default: {
      Collective request;
      request.number = input.ConsumeIntegralInRange<std::uint64_t>(0, 5);
      request.pattern = static_cast<Pattern>(input.ConsumeIntegralInRange<int>(0, 4));
      request.root = input.ConsumeIntegralInRange<std::uint32_t>(0, roster_.world());
      request.length = input.ConsumeBool() ? value.size() : input.ConsumeIntegral<std::uint64_t>();
      request.data = value;
      request.wait_ms = wait(input);
      deadline = Waiter::of(rank_, id_, request.wait_ms, now_).deadline;
      waiting_[{rank_, id_}] = {deadline, false};
      collectives_.handle(rank_, id_, std::move(request), now_, out);
    }
    }
    if (what < 5)
      waiting_[{rank_, id_}] = {TimePoint::max(), true};
    if (expected) {
      require(!out.empty() && out.front().id == id_, "what can be answered at once is");
      require((out.front().body ? *out.front().body : "") == *expected, "the model's answer");
    }
    take(out);
    require(what >= 5 || !waiting_.contains({rank_, id_}), "only waits wait");
  }

  void pass(TimePoint::duration time) {
    now_ += time;
    std::vector<Answer> out;
    keys_.expire(now_, out);
    collectives_.expire(now_, out);
    take(out);
  }

  // As the server does it.
  void leave(Presence how) {
    if (rank_ == 0 || roster_.of(rank_) != Presence::kHere)
      return;
    roster_.mark(rank_, how);
    keys_.forget(rank_);
    std::erase_if(waiting_, [&](const auto& entry) { return entry.first.first == rank_; });
    std::vector<Answer> out;
    const Error error{"a rank is gone", "nothing to do"};
    collectives_.rank_gone(rank_, error, out);
    if (how == Presence::kLost)
      keys_.fail_waiters(error, out);
    take(out);
    if (how == Presence::kLost)
      require(waiting_.empty(), "a lost rank wakes all who wait");
  }

  void take(const std::vector<Answer>& out) {
    for (const auto& answer : out) {
      require(waiting_.erase({answer.rank, answer.id}) == 1, "each request is answered once");
      require(answer.kind <= STEP_ERR_INTERNAL, "an answer is one of step_err_t");
      if (answer.kind != STEP_OK && answer.kind != STEP_ERR_TOO_SMALL) {
        require(answer.body != nullptr, "a failure has a text");
        require(!parse_failure(*answer.body).message.empty(), "a failure says what happened");
        require(answer.body->size() < 4096, "a failure's text is short");
      }
    }
  }

  TimePoint first_deadline(bool for_keys) const {
    auto first = TimePoint::max();
    for (const auto& [to, waiting] : waiting_)
      if (waiting.for_keys == for_keys)
        first = std::min(first, waiting.deadline);
    return first;
  }

  Roster roster_;
  KeyStore keys_;
  Collectives collectives_;
  std::map<std::string, std::string> model_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, Waiting> waiting_;
  TimePoint now_{std::chrono::hours(1)};
  std::uint32_t rank_ = 0, id_ = 0;
};

} // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  FuzzedDataProvider input(data, size);
  Step(input.ConsumeIntegralInRange<std::uint32_t>(1, 5)).run(input);
  return 0;
}
