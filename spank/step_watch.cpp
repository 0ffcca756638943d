// SPDX-License-Identifier: BSD-3-Clause
#include "spank/step_watch.h"

#include "libstep/core/findings.h"
#include "libstep/core/report.h"
#include "libstep/core/text.h"
#include "spank/names.h"

namespace dist_train {

namespace {

constexpr double kFirstCall = 15; // seconds; a slow prolog may take that long
constexpr double kNextCalls = 60;
constexpr double kShortStep = 3;
constexpr double kFactsPatience = 2; // a node's first task may be later than its others

std::string line(const std::string& text) { return "dist-train: " + text + '\n'; }

std::string whole_seconds(double seconds) {
  return std::to_string(static_cast<long>(seconds)) + " s";
}

} // namespace

StepWatch::StepWatch(const Options& options, std::uint16_t port)
    : options_(options), port_(port),
      table_due_(options.verbose.value_or(false) || options.dry_run.value_or(false)),
      comparison_due_(options.checks != CheckRule::kOff), next_call_(kFirstCall) {}

Remark StepWatch::look(const RollCall& roll, double seconds) {
  Remark remark;
  if (roll.nodes_here() > nodes_here_) {
    nodes_here_ = roll.nodes_here();
    last_arrival_ = seconds;
  }
  const auto& failures = roll.failures();
  remark.failures.assign(failures.begin() + static_cast<std::ptrdiff_t>(failures_said_),
                         failures.end());
  failures_said_ = failures.size();
  if (!failures.empty())
    table_due_ = false; // it would stand between the error and its reader
  if (table_due_ && roll.all_rows_here()) {
    table_due_ = false;
    remark.text += table(roll, seconds);
  }
  if (roll.failed())
    return remark;
  if (roll.all_nodes_here())
    compare_nodes(roll, seconds, remark);
  else
    call_for_missing(roll, seconds, remark);
  ended_ = ended_ || remark.end;
  return remark;
}

std::string StepWatch::last_words(const RollCall& roll, double seconds) {
  auto world = roll.world_size();
  const auto& missing = roll.missing_nodes();
  if (table_due_ && !roll.rows().empty()) {
    table_due_ = false;
    return table(roll, seconds) + line(std::to_string(world - roll.rows().size()) + " of " +
                                       std::to_string(world) + " ranks did not report" +
                                       (missing.empty() ? "" : "; no sign of " + listing(missing)));
  }
  // A step that fails at once may do so before all nodes are there.
  if (seconds < kShortStep || nodes_here_ == 0 || missing.empty() || roll.failed() || ended_)
    return "";
  return line("nothing was heard of " + listing(missing) +
              ". If the plugin is missing there, tasks ran without RANK and the other variables");
}

void StepWatch::compare_nodes(const RollCall& roll, double seconds, Remark& remark) {
  if (complete_since_ < 0)
    complete_since_ = seconds;
  if (!comparison_due_ || (!roll.all_facts_here() && seconds < complete_since_ + kFactsPatience))
    return;
  comparison_due_ = false;
  for (const auto& finding :
       findings(roll.facts(), roll.world_size(), kPluginVersion,
                options_.oversubscribe.value_or(false), options_.mode.value_or(Mode::kTorch))) {
    if (finding.fatal && options_.checks.value_or(CheckRule::kEnd) == CheckRule::kEnd) {
      remark.end = Error{finding.text + "; the step is ended", finding.hint};
      return;
    }
    remark.text += line(finding.text + (finding.hint.empty() ? "" : "; fix: " + finding.hint));
  }
}

void StepWatch::call_for_missing(const RollCall& roll, double seconds, Remark& remark) {
  auto wait = options_.wait_seconds.value_or(kDefaultWaitSeconds);
  const auto& missing = roll.missing_nodes();
  auto names = missing.empty() ? "other nodes" : listing(missing);
  // Where nobody came there may be a firewall, and a step on reserved ports that needs no srun.
  if (nodes_here_ > 0 && seconds >= last_arrival_ + wait) {
    remark.end = Error{names + " did not come within " + std::to_string(wait) +
                           " s of the last node that did; the step is ended",
                       "the plugin may be missing there, or cannot reach port " +
                           std::to_string(port_) + " of this host; wait=SECONDS waits longer"};
    return;
  }
  if (seconds < next_call_)
    return;
  next_call_ = next_call_ < kNextCalls ? kNextCalls : next_call_ + kNextCalls;
  if (nodes_here_ == 0) {
    if (seconds >= kNextCalls) {
      remark.text += line("no node of the step has shown itself for " + whole_seconds(seconds) +
                          ". The plugin may be missing there, or cannot reach port " +
                          std::to_string(port_) + " of this host");
      next_call_ = 1e18; // said once: the step may do well without srun
    }
    return;
  }
  remark.text += line(std::to_string(nodes_here_) + " of " + std::to_string(roll.node_count()) +
                      " nodes are here; waiting for " + names + " (no sign of " +
                      (missing.size() == 1 ? "it" : "them") + " for " + whole_seconds(seconds) +
                      "). The plugin may be missing there, or cannot reach port " +
                      std::to_string(port_) + " of this host");
}

std::string StepWatch::table(const RollCall& roll, double seconds) const {
  std::string master = "unknown";
  if (const auto& m = roll.master()) {
    master = m->node + ' ' + host_port_text(m->address, m->ports.master);
    if (!m->interface.empty())
      master += " (" + m->interface + ')';
  }
  const auto tasks = std::to_string(roll.world_size());
  std::string mode = to_text(options_.mode.value_or(Mode::kTorch)), size = "world " + tasks;
  if (launches_ranks(options_))
    size = tasks + (tasks == "1" ? " task" : " tasks");
  if (options_.nproc.value_or(0) > 0)
    mode += " nproc=" + std::to_string(*options_.nproc);
  if (options_.strategy)
    mode += std::string(1, ' ') + to_text(*options_.strategy);
  return mapping_table({step_text(roll.id()), std::move(mode), std::move(size),
                        static_cast<std::uint32_t>(roll.node_count()), std::move(master), seconds},
                       roll.rows());
}

} // namespace dist_train
