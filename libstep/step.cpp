// SPDX-License-Identifier: BSD-3-Clause
// The C ABI of step.h: opening, closing, identity and errors. The store is in step_store.cpp.
#include "libstep/include/libstep/step.h"

#include <cmath>
#include <cstddef>
#include <cstring>
#include <memory>
#include <new>
#include <system_error>

#include "libstep/step_shim.h"

namespace dist_train {
namespace {

// One record serves all handles of a thread: it is read right after the failure.
struct LastFailure {
  const step_t* handle = nullptr;
  Error error;
};
thread_local LastFailure last_failure;

// A time among the options: `otherwise` where it is 0, or a program of an earlier header does not
// know it yet.
double option(const step_options_t* options, std::size_t offset, double otherwise) {
  double value = 0;
  if (options != nullptr && options->size >= offset + sizeof value)
    std::memcpy(&value, reinterpret_cast<const char*>(options) + offset, sizeof value);
  return value == 0 ? otherwise : value;
}

} // namespace

step_err_t fail(const step_t* handle, step_err_t code, Error error) {
  last_failure.handle = handle;
  last_failure.error = std::move(error);
  return code;
}

void forget_failure(const step_t* handle) {
  if (last_failure.handle == handle)
    last_failure = {};
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
    last_failure = {};
    return code;
  }
}

} // namespace dist_train

using namespace dist_train;

extern "C" {

int step_api_version(void) { return STEP_API_VERSION; }

const char* step_strerror(int code) {
  switch (code) {
  case STEP_OK:
    return "success";
  case STEP_ERR_ARGUMENT:
    return "invalid argument";
  case STEP_ERR_IDENTITY:
    return "contradicting or malformed environment";
  case STEP_ERR_CONNECT:
    return "rank 0's store cannot be reached";
  case STEP_ERR_AUTH:
    return "the peer does not know this step's token";
  case STEP_ERR_TIMEOUT:
    return "the deadline passed";
  case STEP_ERR_LOST:
    return "a rank was lost or has left";
  case STEP_ERR_NOT_FOUND:
    return "not found";
  case STEP_ERR_TOO_SMALL:
    return "the buffer is too small";
  case STEP_ERR_PROTOCOL:
    return "the peer speaks another protocol";
  case STEP_ERR_MEMORY:
    return "out of memory";
  case STEP_ERR_SYSTEM:
    return "a system call failed";
  case STEP_ERR_INTERNAL:
    return "internal error";
  default:
    return "unknown error";
  }
}

step_err_t step_open(step_t** out, const step_options_t* options) {
  return guarded(nullptr, [&] {
    if (out == nullptr)
      return bad_argument(nullptr, "step_open(): the place for the handle is NULL");
    constexpr std::size_t kSmallest = offsetof(step_options_t, connect_seconds) + sizeof(double);
    if (options != nullptr && options->size < kSmallest)
      return bad_argument(nullptr,
                          "step_open(): the options' size is " + std::to_string(options->size),
                          "set it to sizeof(step_options_t)");
    const double connect = option(options, offsetof(step_options_t, connect_seconds), 300);
    auto handle = std::make_unique<step>();
    handle->linger_seconds = option(options, offsetof(step_options_t, linger_seconds), 30);
    handle->silence_seconds =
        option(options, offsetof(step_options_t, silence_seconds), kDefaultSilence);
    handle->stop_seconds = option(options, offsetof(step_options_t, stop_seconds), 0);
    if (std::isnan(connect) || std::isnan(handle->linger_seconds) ||
        std::isnan(handle->silence_seconds) || std::isnan(handle->stop_seconds))
      return bad_argument(nullptr, "step_open(): a time among the options is not a number");

    auto identity = find_identity(read_environment(), host_name());
    if (!identity)
      return fail(nullptr, STEP_ERR_IDENTITY, identity.error());
    handle->identity = *std::move(identity);
    if (auto refusal = open_session(*handle, connect < 0 ? 1e9 : connect))
      return fail(nullptr, refusal->code, std::move(refusal->error));
    forget_failure(handle.get()); // of an earlier handle at this address
    *out = handle.release();
    return STEP_OK;
  });
}

void step_close(step_t* handle) {
  // In a forked child the threads are not there to be joined; the handle is the parent's.
  if (handle == nullptr || handle->process != ::getpid())
    return;
  forget_failure(handle);
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
step_source_t step_source(const step_t* s) { return s ? s->identity.source : STEP_SOURCE_SINGLE; }
const char* step_source_text(const step_t* s) { return s ? s->identity.source_text.c_str() : ""; }
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

} // extern "C"
