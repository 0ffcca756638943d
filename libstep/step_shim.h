// SPDX-License-Identifier: BSD-3-Clause
// What every function of the C ABI goes through: no exception gets out, the handle is one that can
// serve, and each failure leaves its text for step_error(). Only step*.cpp include this.
#pragma once

#include <string>
#include <utility>

#include <unistd.h>

#include "libstep/session.h"

struct step : dist_train::Session {};

namespace dist_train {

// Keeps the text as this thread's last failure and returns the code.
step_err_t fail(const step_t* handle, step_err_t code, Error error);
// Inside of a catch block: the code and text of the exception in flight.
step_err_t fail_from_exception(const step_t* handle) noexcept;
// Forgets this thread's failure if it was one on this handle.
void forget_failure(const step_t* handle);

inline step_err_t bad_argument(const step_t* handle, std::string message, std::string hint = {}) {
  return fail(handle, STEP_ERR_ARGUMENT, {std::move(message), std::move(hint)});
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

inline step_err_t finish(step_t& handle, Reply reply) {
  return reply.code == STEP_OK ? STEP_OK : fail(&handle, reply.code, std::move(reply.error));
}

} // namespace dist_train
