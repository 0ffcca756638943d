// SPDX-License-Identifier: BSD-3-Clause
// A task's side of the rendezvous in srun.
#pragma once

#include "libstep/core/result.h"
#include "spank/broker_messages.h"

#include <chrono>
#include <functional>
#include <string>
#include <vector>

namespace dist_train {

struct BrokerAddress {
  std::vector<std::string> hosts; // literal addresses or names, tried in this order
  std::uint16_t port = 0;         // 0: srun offers no broker
  Token token{};
};

enum class Reach {
  kAnswered,
  kNotThere,    // nothing listens: this srun has no broker
  kGone,        // there was one, and it ended: so does the step
  kUnreachable, // no connection in time
  kFailed,      // it does not answer as ours would
};

struct Exchange {
  Reach reach = Reach::kFailed;
  Answer answer; // kAnswered
  Error error;   // otherwise; names the address
};

// One report, one answer.
Exchange exchange(const BrokerAddress& broker, const Report& report, std::chrono::seconds limit);

// Reports without waiting for the answer; for what is good to know in srun only.
void mention(const BrokerAddress& broker, const Report& report);

// Reports why the task cannot start. True: srun has told the user, who therefore reads it before
// Slurm's own line on the task's end. False, after seconds: nobody has.
bool report_failure(const BrokerAddress& broker, Report report, const Error& failure);

// How long a task of such a step waits at most before it asks again: the more tasks, the longer, so
// that srun, which answers some ten thousand reports a second, keeps up.
std::chrono::milliseconds longest_pause(const Report& report);

// Repeats the report until the answer is not kPending, at growing intervals, or nothing new has
// been heard for `limit`, or what it waits for has been found another way, as `found` tells, which
// is called every few seconds (then the last answer, still kPending). The one place where a task
// may wait long: as Slurm takes a node out of service whose tasks do not end, it returns as soon as
// srun is gone.
Exchange ask(const BrokerAddress& broker, const Report& report, std::chrono::seconds limit,
             const std::function<bool()>& found = {});

} // namespace dist_train
