// SPDX-License-Identifier: BSD-3-Clause
// The C ABI of step.h: the store, collectives and the watch for lost ranks. Checks arguments and
// translates; no logic of its own.
#include "libstep/include/libstep/step.h"

#include <cmath>
#include <cstring>
#include <optional>
#include <string>

#include "libstep/step_shim.h"

using namespace dist_train;

namespace {

// Runs body(milliseconds) where seconds is a time.
template <typename Body>
step_err_t within(step_t& handle, double seconds, Body body) {
  if (std::isnan(seconds))
    return bad_argument(&handle, "the deadline is not a number");
  constexpr double kForever = 1e9;
  return body(seconds < 0 || seconds > kForever
                  ? std::int64_t{-1}
                  : static_cast<std::int64_t>(std::ceil(seconds * 1000)));
}

// Runs body(key) where key can be one.
template <typename Body>
step_err_t keyed(step_t& handle, const char* key, Body body) {
  const std::size_t length = key == nullptr ? 0 : ::strnlen(key, STEP_KEY_MAX + 1);
  if (key == nullptr || length == 0 || length > STEP_KEY_MAX)
    return bad_argument(&handle,
                        key == nullptr ? "the key is NULL"
                        : length == 0
                            ? "the key is empty"
                            : "the key is longer than " + std::to_string(STEP_KEY_MAX) + " bytes",
                        "use keys of 1 to " + std::to_string(STEP_KEY_MAX) + " bytes");
  return body(std::string(key, length));
}

std::optional<Error> unfit_buffer(const void* data, std::size_t length) {
  if (data == nullptr && length != 0)
    return Error{"the buffer is NULL, but its length is " + std::to_string(length)};
  if (length > STEP_VALUE_MAX)
    return Error{"the value has " + std::to_string(length) + " bytes, more than " +
                     std::to_string(STEP_VALUE_MAX),
                 "split it into several, or send it by other means"};
  return std::nullopt;
}

std::string bytes(const void* data, std::size_t length) {
  return length == 0 ? std::string() : std::string(static_cast<const char*>(data), length);
}

step_err_t malformed_answer(step_t& handle) {
  return fail(&handle, STEP_ERR_PROTOCOL,
              {"the store's answer has another form than expected",
               "see that all ranks run the same version of libstep"});
}

// For requests that are answered by a number.
template <typename Number>
step_err_t call_for_number(step_t& handle, const Request& request, Number* result) {
  Reply reply = handle.client->call(request);
  if (reply.code != STEP_OK)
    return finish(handle, std::move(reply));
  const auto number = decode_number(reply.body);
  if (!number)
    return malformed_answer(handle);
  if (result != nullptr)
    *result = static_cast<Number>(*number);
  return STEP_OK;
}

// Collectives are answered by `expected` bytes for `out`.
step_err_t collective(step_t& handle, Collective request, double seconds, void* out,
                      std::size_t expected) {
  return within(handle, seconds, [&](std::int64_t wait_ms) {
    request.number = ++handle.collectives;
    request.wait_ms = wait_ms;
    Reply reply = handle.client->call(request, wait_ms);
    if (reply.code != STEP_OK)
      return finish(handle, std::move(reply));
    if (reply.body.size() != expected)
      return malformed_answer(handle);
    if (expected != 0)
      std::memcpy(out, reply.body.data(), expected);
    return STEP_OK;
  });
}

} // namespace

extern "C" {

step_err_t step_set(step_t* handle, const char* key, const void* value, size_t length) {
  return with(handle, [&](step_t& s) {
    return keyed(s, key, [&](std::string name) {
      if (auto bad = unfit_buffer(value, length))
        return fail(&s, STEP_ERR_ARGUMENT, std::move(*bad));
      return finish(s, s.client->call(SetKey{std::move(name), bytes(value, length)}));
    });
  });
}

step_err_t step_get(step_t* handle, const char* key, void* value, size_t* length, double seconds) {
  return with(handle, [&](step_t& s) {
    if (length == nullptr || (value == nullptr && *length != 0))
      return bad_argument(&s, length == nullptr ? "the place for the length is NULL"
                                                : "the buffer is NULL, but has a capacity");
    return keyed(s, key, [&](std::string name) {
      return within(s, seconds, [&](std::int64_t wait_ms) {
        Reply reply = s.client->call(GetKey{name, *length, wait_ms}, wait_ms);
        if (reply.code == STEP_ERR_TOO_SMALL) {
          const auto needed = decode_number(reply.body);
          if (!needed)
            return malformed_answer(s);
          const std::size_t had = *length;
          *length = static_cast<size_t>(*needed);
          return fail(&s, STEP_ERR_TOO_SMALL,
                      {"the value has " + std::to_string(*needed) + " bytes, the buffer " +
                           std::to_string(had),
                       "call again with a larger buffer"});
        }
        if (reply.code != STEP_OK)
          return finish(s, std::move(reply));
        if (reply.body.size() > *length)
          return malformed_answer(s);
        *length = reply.body.size();
        if (!reply.body.empty())
          std::memcpy(value, reply.body.data(), reply.body.size());
        return STEP_OK;
      });
    });
  });
}

step_err_t step_wait(step_t* handle, const char* const* keys, size_t count, double seconds) {
  return with(handle, [&](step_t& s) {
    if (keys == nullptr && count != 0)
      return bad_argument(&s, "the list of keys is NULL");
    WaitKeys request;
    for (std::size_t i = 0; i < count; ++i) {
      const step_err_t code = keyed(s, keys[i], [&](std::string name) {
        request.keys.push_back(std::move(name));
        return STEP_OK;
      });
      if (code != STEP_OK)
        return code;
    }
    return within(s, seconds, [&](std::int64_t wait_ms) {
      request.wait_ms = wait_ms;
      return finish(s, s.client->call(request, wait_ms));
    });
  });
}

step_err_t step_add(step_t* handle, const char* key, int64_t delta, int64_t* result) {
  return with(handle, [&](step_t& s) {
    return keyed(s, key, [&](std::string name) {
      return call_for_number(s, AddKey{std::move(name), delta}, result);
    });
  });
}

step_err_t step_compare_and_set(step_t* handle, const char* key, const void* expected,
                                size_t expected_length, const void* desired, size_t desired_length,
                                int* swapped) {
  return with(handle, [&](step_t& s) {
    return keyed(s, key, [&](std::string name) {
      if (auto bad = expected == nullptr ? std::nullopt : unfit_buffer(expected, expected_length))
        return fail(&s, STEP_ERR_ARGUMENT, std::move(*bad));
      if (auto bad = unfit_buffer(desired, desired_length))
        return fail(&s, STEP_ERR_ARGUMENT, std::move(*bad));
      return call_for_number(
          s,
          CompareAndSet{std::move(name), expected == nullptr,
                        expected == nullptr ? std::string() : bytes(expected, expected_length),
                        bytes(desired, desired_length)},
          swapped);
    });
  });
}

step_err_t step_delete(step_t* handle, const char* key, int* existed) {
  return with(handle, [&](step_t& s) {
    return keyed(s, key, [&](std::string name) {
      return call_for_number(s, DeleteKey{std::move(name)}, existed);
    });
  });
}

step_err_t step_key_count(step_t* handle, int64_t* count) {
  return with(handle, [&](step_t& s) {
    if (count == nullptr)
      return bad_argument(&s, "the place for the count is NULL");
    return call_for_number(s, CountKeys{}, count);
  });
}

step_err_t step_barrier(step_t* handle, double seconds) {
  return with(handle, [&](step_t& s) { return collective(s, Collective{}, seconds, nullptr, 0); });
}

step_err_t step_broadcast(step_t* handle, int root, void* data, size_t length, double seconds) {
  return with(handle, [&](step_t& s) {
    if (root < 0 || root >= step_world_size(&s))
      return bad_argument(&s, "root " + std::to_string(root) + " is no rank of this step",
                          "ranks go from 0 to " + std::to_string(step_world_size(&s) - 1));
    if (auto bad = unfit_buffer(data, length))
      return fail(&s, STEP_ERR_ARGUMENT, std::move(*bad));
    Collective request;
    request.pattern = Pattern::kBroadcast;
    request.root = static_cast<std::uint32_t>(root);
    request.length = length;
    if (root == step_rank(&s))
      request.data = bytes(data, length);
    return collective(s, std::move(request), seconds, data, length);
  });
}

step_err_t step_all_gather(step_t* handle, const void* in, size_t length, void* out,
                           double seconds) {
  return with(handle, [&](step_t& s) {
    const std::size_t world = s.identity.world;
    if ((in == nullptr || out == nullptr) && length != 0)
      return bad_argument(&s, "a buffer is NULL, but the length is " + std::to_string(length));
    if (length > STEP_VALUE_MAX / world)
      return bad_argument(&s,
                          std::to_string(world) + " times " + std::to_string(length) +
                              " bytes are more than " + std::to_string(STEP_VALUE_MAX),
                          "gather large data by other means");
    Collective request;
    request.pattern = Pattern::kGather;
    request.length = length;
    request.data = bytes(in, length);
    return collective(s, std::move(request), seconds, out, world * length);
  });
}

step_err_t step_wait_lost(step_t* handle, int* rank, double seconds) {
  return with(handle, [&](step_t& s) {
    if (rank == nullptr)
      return bad_argument(&s, "the place for the rank is NULL");
    return within(s, seconds, [&](std::int64_t wait_ms) {
      std::uint32_t lost = 0;
      Reply reply = s.client->wait_lost(lost, wait_ms);
      if (reply.code == STEP_OK)
        *rank = static_cast<int>(lost);
      return fail(&s, reply.code, std::move(reply.error)); // a loss has a text, too
    });
  });
}

void step_close_watch(step_t* handle) {
  (void)with(handle, [](step_t& s) {
    s.client->close_watch();
    return STEP_OK;
  });
}

} // extern "C"
