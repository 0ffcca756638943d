// SPDX-License-Identifier: BSD-3-Clause
#include "libstep/store/join.h"

#include <algorithm>
#include <cerrno>
#include <optional>
#include <thread>

#include <sys/random.h>

#include "libstep/core/rendezvous.h"
#include "libstep/store/roster.h"
#include "libstep/store/wire.h"

namespace dist_train {
namespace {

using std::chrono::milliseconds;

// At a place that is only guessed, a program that says nothing is somebody else's.
constexpr auto kGuessPatience = std::chrono::seconds(2);

struct Setback {
  step_err_t code;
  Error error;
  bool passes = true; // worth another try
};

using Outcome = std::variant<Joined, Setback>;

Setback from_verdict(Verdict verdict, const JoinPlan& plan, const std::string& where) {
  const std::string me = "rank " + std::to_string(plan.rank);
  switch (verdict) {
  case Verdict::kWrongWorld:
    return {STEP_ERR_IDENTITY,
            {where + " refused " + me + ": it serves a step of another size than " +
                 std::to_string(plan.world) + " ranks",
             "see that WORLD_SIZE is the same in all ranks"},
            false};
  case Verdict::kRankTaken:
    return {
        STEP_ERR_IDENTITY,
        {where + " refused " + me + ": a process with this rank has joined already",
         "see that every process has a RANK of its own; a rank cannot join again after it ended"},
        false};
  case Verdict::kWrongGeneration:
    return {STEP_ERR_CONNECT,
            {where + " does not serve step_open() number " + std::to_string(plan.generation) +
                 " of this process",
             "every rank must call step_open() equally often"}};
  case Verdict::kWrongToken:
  case Verdict::kWrongVersion:
  case Verdict::kWelcome:
    break;
  }
  return {STEP_ERR_PROTOCOL,
          {where + " answered with a verdict this version of libstep does not know",
           "see that all ranks run the same version of libstep"},
          false};
}

Outcome try_place(const Endpoint& place, const JoinPlan& plan, TimePoint deadline) {
  const std::string store = "the store of " + plan.store_rank_text;
  const std::string where = store + " at " + host_port_text(place.host, place.port);
  const auto in_vain = [&](const Error& error) {
    return Setback{STEP_ERR_CONNECT, {where + ": " + error.message}};
  };
  auto stream = connect_to(place, deadline);
  if (!stream)
    return Setback{STEP_ERR_CONNECT, {store + ": " + stream.error().message}};

  Hello hello;
  hello.rank = plan.rank;
  hello.world = plan.world;
  hello.generation = plan.generation;
  hello.nonce.resize(kNonceSize);
  if (::getrandom(hello.nonce.data(), kNonceSize, 0) != static_cast<ssize_t>(kNonceSize))
    return Setback{STEP_ERR_SYSTEM, {system_text("getrandom", errno)}, false};
  hello.proof = as_text(prove(plan.token, hello));
  if (auto sent = send_all(*stream, encode(hello), deadline); !sent)
    return in_vain(sent.error());

  auto bytes = receive_exactly(*stream, kOpeningSize, deadline);
  if (!bytes)
    return in_vain(bytes.error());
  const auto version = decode_opening(*bytes);
  if (!version)
    return Setback{STEP_ERR_PROTOCOL,
                   {where + ": what answers there is not libstep",
                    "another program has this port; start the step again"},
                   false};
  if (*version != kProtocolVersion)
    return Setback{STEP_ERR_PROTOCOL,
                   {where + " speaks version " + std::to_string(*version) +
                        " of the protocol, this library " + std::to_string(kProtocolVersion),
                    "see that all ranks run the same version of libstep"},
                   false};
  auto rest = receive_exactly(*stream, kWelcomeSize - kOpeningSize, deadline);
  if (!rest)
    return in_vain(rest.error());
  const auto welcome = decode_welcome(*bytes + *rest);
  if (!welcome || !proves(welcome->proof, prove(plan.token, hello, *welcome)))
    return Setback{STEP_ERR_AUTH,
                   {where + " does not know this step's token: it serves another step",
                    "start all ranks by one srun, without changing DIST_TRAIN_TOKEN"},
                   false};
  if (welcome->verdict != Verdict::kWelcome)
    return from_verdict(welcome->verdict, plan, where);
  return Joined{*std::move(stream), place, welcome->program_port};
}

// At a guessed place only those who know the token count: their refusals end the search.
bool of_another_step(const Setback& setback) {
  return setback.code == STEP_ERR_AUTH || setback.code == STEP_ERR_PROTOCOL;
}

} // namespace

std::variant<Joined, Refusal> join_store(const JoinPlan& plan) {
  const auto in_all = milliseconds(static_cast<std::int64_t>(std::min(plan.seconds, 1e9) * 1000));
  const TimePoint deadline = Clock::now() + in_all;
  const bool told = plan.places.size() == 1;
  auto pause = milliseconds(20);
  Error last{"no place to look for the store of " + plan.store_rank_text};
  for (;;) {
    std::optional<Setback> nearest_miss;
    for (const Endpoint& place : plan.places) {
      auto outcome = try_place(place, plan,
                               told ? deadline : std::min(deadline, Clock::now() + kGuessPatience));
      if (auto* joined = std::get_if<Joined>(&outcome))
        return std::move(*joined);
      auto& setback = std::get<Setback>(outcome);
      const bool stranger = !told && of_another_step(setback);
      if (!setback.passes && !stranger)
        return Refusal{setback.code, std::move(setback.error)};
      // A store of ours at another generation says more than a closed port.
      if (!nearest_miss || !setback.error.hint.empty())
        nearest_miss = std::move(setback);
    }
    if (nearest_miss)
      last = std::move(nearest_miss->error);
    const auto left = std::chrono::ceil<milliseconds>(deadline - Clock::now());
    if (left <= milliseconds(0))
      break;
    std::this_thread::sleep_for(std::min(pause, left));
    pause = std::min(2 * pause, milliseconds(500));
  }
  return Refusal{STEP_ERR_CONNECT,
                 {last.message + "; tried for " + seconds_text(in_all.count()),
                  last.hint.empty() ? "see whether that rank started and called step_open(), and "
                                      "that its port can be reached from this node"
                                    : last.hint}};
}

} // namespace dist_train
