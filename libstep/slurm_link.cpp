// SPDX-License-Identifier: BSD-3-Clause
#include "libstep/slurm_link.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <exception>

#include <poll.h>
#include <sys/random.h>

#include "libstep/core/slurm_job.h"
#include "libstep/os/command.h"
#include "libstep/store/wire.h"

namespace dist_train {
namespace {

using std::chrono::seconds;

constexpr auto kConnectTime = seconds(5);
constexpr auto kSrunTime = seconds(25); // somewhat more than srun gives the command
constexpr auto kCommandTime = seconds(20);

const Error kUnwanted{"the step was closed before Slurm answered"};

struct Asked {
  Result<std::string> text;
  bool answered = false; // srun has spoken: no other way would do better
};

// Until something is there to be read, or reading it would be in vain.
void wait_for_answer(const Socket& stream, TimePoint deadline, const std::stop_token& unwanted) {
  constexpr int kTurn = 50; // milliseconds
  pollfd entry{stream.get(), POLLIN, 0};
  while (!unwanted.stop_requested() && Clock::now() < deadline && ::poll(&entry, 1, kTurn) <= 0) {
  }
}

Asked ask_srun(const Identity& identity, SrunWish wish, const std::stop_token& unwanted) {
  const std::string srun =
      "srun at " + host_port_text(identity.broker->host, identity.broker->port);
  SrunRequest request;
  request.wish = wish;
  if (::getrandom(request.nonce.data(), request.nonce.size(), 0) !=
      static_cast<ssize_t>(request.nonce.size()))
    return {Error{system_text("getrandom", errno)}};
  auto stream = connect_to(*identity.broker, Clock::now() + kConnectTime);
  if (!stream)
    return {Error{srun + ": " + stream.error().message}};
  const TimePoint deadline = Clock::now() + kSrunTime;
  if (auto sent = send_all(*stream, encode(request, identity.token), deadline); !sent)
    return {Error{srun + ": " + sent.error().message}};
  wait_for_answer(*stream, deadline, unwanted);
  if (unwanted.stop_requested())
    return {kUnwanted, true};
  const auto bytes = receive_exactly(*stream, kSrunAnswerSize, deadline);
  if (!bytes)
    return {Error{srun + " did not answer: " + bytes.error().message}};
  const auto answer = decode_srun_answer(*bytes, identity.token, request);
  if (!answer)
    return {Error{"what answers at " + srun + " is not this step's srun"}};
  if (!answer->done)
    return {Error{answer->text}, true};
  return {answer->text, true};
}

} // namespace

Result<std::string> ask_slurm(const Identity& identity, SrunWish wish,
                              const std::stop_token& unwanted) {
  if (identity.job.empty())
    return Error{"this process belongs to no Slurm job (SLURM_JOB_ID is not set)",
                 "start it by srun or sbatch"};
  std::string in_vain;
  if (identity.broker) {
    auto asked = ask_srun(identity, wish, unwanted);
    if (asked.text || asked.answered)
      return std::move(asked.text);
    in_vain = asked.text.error().message + "; and ";
  }
  auto text = run_command(wish == SrunWish::kRequeue ? requeue_command(identity.job)
                                                     : time_left_command(identity.job),
                          kCommandTime, unwanted);
  if (!text)
    return Error{in_vain + text.error().message, text.error().hint};
  return text;
}

std::int64_t time_left_ms(const Identity& identity, const std::stop_token& unwanted) noexcept {
  try {
    if (identity.job_end) {
      const auto now = std::chrono::duration_cast<std::chrono::milliseconds>(
                           std::chrono::system_clock::now().time_since_epoch())
                           .count();
      return std::max<std::int64_t>(0, static_cast<std::int64_t>(*identity.job_end) * 1000 - now);
    }
    if (identity.job.empty())
      return kNoTimeLimit;
    const auto text = ask_slurm(identity, SrunWish::kTimeLeft, unwanted);
    const auto left = text ? parse_time_left(*text) : std::nullopt;
    return !left || *left > kNoTimeLimit / 1000 ? kNoTimeLimit : *left * 1000;
  } catch (const std::exception&) { // out of memory: as where Slurm does not say
    return kNoTimeLimit;
  }
}

} // namespace dist_train
