// SPDX-License-Identifier: BSD-3-Clause
// The C ABI of step.h: how a run ends in order. Stop requests, the time that is left, requeueing.
#include "libstep/include/libstep/step.h"

#include <cmath>
#include <csignal>
#include <cstring>
#include <vector>

#include "libstep/slurm_link.h"
#include "libstep/step_shim.h"

using namespace dist_train;

extern "C" {

step_err_t step_request_stop(step_t* handle, const char* reason) {
  return with(handle, [&](step_t& s) {
    if (reason == nullptr)
      return bad_argument(&s, "the reason is NULL");
    return finish(s,
                  s.client->call(StopRequest{std::string(reason, ::strnlen(reason, kMaxReason))}));
  });
}

step_err_t step_catch_signals(step_t* handle, const int* signals, size_t count) {
  return with(handle, [&](step_t& s) {
    if (signals == nullptr && count != 0)
      return bad_argument(&s, "the list of signals is NULL");
    std::vector<int> wanted(signals, signals + count);
    if (wanted.empty())
      wanted = {SIGTERM, SIGUSR1};
    auto installed = StopSignals::install(wanted);
    if (!installed)
      return fail(&s, STEP_ERR_ARGUMENT, installed.error());
    s.signals = *std::move(installed);
    const std::string where =
        " reached rank " + std::to_string(s.identity.rank) + " (" + s.identity.node_name + ")";
    s.client->poll_stops([caught = s.signals.get(), where]() -> std::optional<std::string> {
      const int signal = caught->caught();
      return signal == 0 ? std::nullopt : std::optional(signal_name(signal) + where);
    });
    return STEP_OK;
  });
}

int step_should_stop(step_t* handle, int64_t iteration) {
  bool stop = false;
  (void)with(handle, [&](step_t& s) { return finish(s, s.client->should_stop(iteration, stop)); });
  return stop ? 1 : 0;
}

const char* step_stop_reason(step_t* handle) {
  const char* reason = "";
  (void)with(handle, [&](step_t& s) {
    reason = s.client->stop_reason();
    return STEP_OK;
  });
  return reason;
}

double step_seconds_left(step_t* handle) {
  double left = HUGE_VAL;
  (void)with(handle, [&](step_t& s) {
    constexpr std::int64_t kLookMs = 60'000;
    Reply reply = s.client->call(TimeLeft{}, kLookMs);
    if (reply.code != STEP_OK)
      return finish(s, std::move(reply));
    if (const auto ms = decode_number(reply.body);
        ms && static_cast<std::int64_t>(*ms) != kNoTimeLimit)
      left = std::fmax(0, static_cast<double>(static_cast<std::int64_t>(*ms)) / 1000);
    return STEP_OK;
  });
  return left;
}

step_err_t step_requeue(step_t* handle) {
  return with(handle, [&](step_t& s) {
    auto done = ask_slurm(s.identity, SrunWish::kRequeue);
    return done ? STEP_OK
                : fail(&s, STEP_ERR_SYSTEM,
                       {"cannot requeue the job: " + done.error().message, done.error().hint});
  });
}

} // extern "C"
