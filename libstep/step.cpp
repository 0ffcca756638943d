// SPDX-License-Identifier: BSD-3-Clause
// The C ABI of step.h: checks arguments, translates, keeps exceptions in. No logic of its own.
#include "libstep/include/libstep/step.h"

#include <cmath>
#include <cstddef>
#include <cstring>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

#include <unistd.h>

#include "libstep/session.h"

using namespace dist_train;

struct step : Session {};

namespace {

// The last failure of this thread. One record serves all handles: it is read right after.
struct LastFailure {
  const step_t* handle = nullptr;
  Error error;
};
thread_local LastFailure last_failure;

step_err_t fail(const step_t* handle, step_err_t code, Error error) {
  last_failure.handle = handle;
  last_failure.error = std::move(error);
  return code;
}

step_err_t bad_argument(const step_t* handle, std::string message, std::string hint = {}) {
  return fail(handle, STEP_ERR_ARGUMENT, {std::move(message), std::move(hint)});
}

// No exception crosses the C boundary, and a text that cannot be kept does not hide the code.
step_err_t fail_from_exception(const step_t* handle) noexcept {
  step_err_t code = STEP_ERR_INTERNAL;
  try {
    try {
      throw;
    } catch (const std::bad_alloc&) {
      code = STEP_ERR_MEMORY;
      return fail(handle, code, {"out of memory"});
    } catch (const std::system_error& error) {
      code = STEP_ERR_SYSTEM;
      return fail(handle, code, {error.what()});
    } catch (const std::exception& error) {
      return fail(handle, code, {std::string("internal error: ") + error.what()});
    }
  } catch (...) {
    last_failure.handle = nullptr;
    return code;
  }
}

template <typename Body>
step_err_t guarded(const step_t* handle, Body body) noexcept {
  try {
    return body();
  } catch (...) {
    return fail_from_exception(handle);
  }
}

// Runs body(handle) where the handle can serve.
template <typename Body>
step_err_t with(step_t* handle, Body body) noexcept {
  return guarded(handle, [&] {
    if (handle == nullptr)
      return bad_argument(handle, "the handle is NULL", "call step_open() first");
    if (handle->process != ::getpid())
      return bad_argument(handle,
                          "the handle belongs to process " + std::to_string(handle->process) +
                              "; this is a child it forked",
                          "use the store in the process that called step_open()");
    return body(*handle);
  });
}

step_err_t finish(step_t& handle, Reply reply) {
  return reply.code == STEP_OK ? STEP_OK : fail(&handle, reply.code, std::move(reply.error));
}

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
                        : length == 0  ? "the key is empty"
                                       : "the key is longer than " + std::to_string(STEP_KEY_MAX) +
                                            " bytes",
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

double option_seconds(const step_options_t* options, std::size_t end, double value,
                      double otherwise) {
  return options == nullptr || options->size < end || value == 0 ? otherwise : value;
}

} // namespace

extern "C" {

int step_api_version(void) { return STEP_API_VERSION; }

const char* step_strerror(int code) {
  switch (code) {
  case STEP_OK: return "success";
  case STEP_ERR_ARGUMENT: return "invalid argument";
  case STEP_ERR_IDENTITY: return "contradicting or malformed environment";
  case STEP_ERR_CONNECT: return "rank 0's store cannot be reached";
  case STEP_ERR_AUTH: return "the peer does not know this step's token";
  case STEP_ERR_TIMEOUT: return "the deadline passed";
  case STEP_ERR_LOST: return "a rank was lost or has left";
  case STEP_ERR_NOT_FOUND: return "not found";
  case STEP_ERR_TOO_SMALL: return "the buffer is too small";
  case STEP_ERR_PROTOCOL: return "the peer speaks another protocol";
  case STEP_ERR_MEMORY: return "out of memory";
  case STEP_ERR_SYSTEM: return "a system call failed";
  case STEP_ERR_INTERNAL: return "internal error";
  default: return "unknown error";
  }
}

step_err_t step_open(step_t** out, const step_options_t* options) {
  return guarded(nullptr, [&] {
    if (out == nullptr)
      return bad_argument(nullptr, "step_open(): the place for the handle is NULL");
    constexpr std::size_t kConnectEnd =
        offsetof(step_options_t, connect_seconds) + sizeof(double);
    constexpr std::size_t kLingerEnd = offsetof(step_options_t, linger_seconds) + sizeof(double);
    if (options != nullptr && options->size < kConnectEnd)
      return bad_argument(nullptr,
                          "step_open(): the options' size is " + std::to_string(options->size),
                          "set it to sizeof(step_options_t)");
    const double connect = option_seconds(options, kConnectEnd,
                                          options == nullptr ? 0 : options->connect_seconds, 300);
    const bool lingers = options != nullptr && options->size >= kLingerEnd;
    const double linger =
        option_seconds(options, kLingerEnd, lingers ? options->linger_seconds : 0, 30);
    if (std::isnan(connect) || std::isnan(linger))
      return bad_argument(nullptr, "step_open(): a time among the options is not a number");

    auto identity = find_identity(read_environment(), host_name());
    if (!identity)
      return fail(nullptr, STEP_ERR_IDENTITY, identity.error());
    auto handle = std::make_unique<step>();
    handle->identity = *std::move(identity);
    handle->linger_seconds = linger;
    if (auto refusal = open_session(*handle, connect < 0 ? 1e9 : connect))
      return fail(nullptr, refusal->code, std::move(refusal->error));
    if (last_failure.handle == handle.get())
      last_failure = {}; // of an earlier handle at this address
    *out = handle.release();
    return STEP_OK;
  });
}

void step_close(step_t* handle) {
  // In a forked child the threads are not there to be joined; the handle is the parent's.
  if (handle == nullptr || handle->process != ::getpid())
    return;
  if (last_failure.handle == handle)
    last_failure = {};
  (void)guarded(nullptr, [&] {
    const std::unique_ptr<step> owned(handle);
    close_session(*owned);
    return STEP_OK;
  });
}

const char* step_error(const step_t* handle) {
  return last_failure.handle == handle ? last_failure.error.message.c_str() : "";
}

const char* step_hint(const step_t* handle) {
  return last_failure.handle == handle ? last_failure.error.hint.c_str() : "";
}

int step_rank(const step_t* s) { return s ? static_cast<int>(s->identity.rank) : -1; }
int step_world_size(const step_t* s) { return s ? static_cast<int>(s->identity.world) : -1; }
int step_local_rank(const step_t* s) { return s ? static_cast<int>(s->identity.local_rank) : -1; }
int step_local_world_size(const step_t* s) {
  return s ? static_cast<int>(s->identity.local_world) : -1;
}
int step_node_rank(const step_t* s) { return s ? static_cast<int>(s->identity.node_rank) : -1; }
int step_node_count(const step_t* s) { return s ? static_cast<int>(s->identity.node_count) : -1; }
int step_restart_count(const step_t* s) {
  return s ? static_cast<int>(s->identity.restart_count) : -1;
}
int step_master_port(const step_t* s) { return s ? s->identity.master_port : -1; }
step_source_t step_source(const step_t* s) {
  return s ? s->identity.source : STEP_SOURCE_SINGLE;
}
const char* step_source_text(const step_t* s) {
  return s ? s->identity.source_text.c_str() : "";
}
const char* step_node_name(const step_t* s) { return s ? s->identity.node_name.c_str() : ""; }
const char* step_strategy(const step_t* s) { return s ? s->identity.strategy.c_str() : ""; }
const char* step_id(const step_t* s) { return s ? s->identity.step_id.c_str() : ""; }
const char* step_master_address(const step_t* s) {
  return s ? s->identity.master_address.c_str() : "";
}
const char* step_store_address(const step_t* s) { return s ? s->store_address.c_str() : ""; }

const char* step_node_of(const step_t* s, int rank) {
  if (s == nullptr || rank < 0 || static_cast<std::size_t>(rank) >= s->identity.nodes.size())
    return "?";
  const std::string& node = s->identity.nodes[static_cast<std::size_t>(rank)];
  return node.empty() ? "?" : node.c_str();
}

step_err_t step_set(step_t* handle, const char* key, const void* value, size_t length) {
  return with(handle, [&](step_t& s) {
    return keyed(s, key, [&](std::string name) {
      if (auto bad = unfit_buffer(value, length))
        return fail(&s, STEP_ERR_ARGUMENT, std::move(*bad));
      return finish(s, s.client->call(SetKey{std::move(name), bytes(value, length)}));
    });
  });
}

step_err_t step_get(step_t* handle, const char* key, void* value, size_t* length,
                    double seconds) {
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
                                size_t expected_length, const void* desired,
                                size_t desired_length, int* swapped) {
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
  return with(handle,
              [&](step_t& s) { return collective(s, Collective{}, seconds, nullptr, 0); });
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
