// SPDX-License-Identifier: BSD-3-Clause
#include "spank/meeting.h"

#include "libstep/os/connect.h"
#include "libstep/os/interfaces.h"
#include "libstep/os/port.h"
#include "libstep/os/rank_zero.h"
#include "spank/plain_layout.h"

#include <algorithm>
#include <thread>

namespace dist_train {

using Clock = std::chrono::steady_clock;

namespace {

constexpr std::chrono::seconds kAloneTime{30}; // well below Slurm's UnkillableStepTimeout
constexpr std::chrono::seconds kAddressTime{3};
constexpr std::chrono::seconds kAfterSrun{5}; // srun looks once a second
constexpr std::chrono::seconds kWayTime{10};  // four attempts of the kernel

class Attempt {
public:
  Attempt(const SlurmFacts& facts, const Options& options, const BrokerAddress& broker,
          Report report)
      : facts_(facts), options_(options), broker_(broker), layout_(plain_layout(facts)),
        wait_(options.wait_seconds.value_or(kDefaultWaitSeconds)), report_(std::move(report)) {}

  Result<Meeting> run() {
    auto reserved = reserved_ports(facts_.reserved_ports, options_.mode.value_or(Mode::kTorch));
    if (!reserved)
      return reserved.error();
    if (!facts_.heterogeneous) // else a port may be reserved on one component's nodes only
      reserved_ = *reserved;
    auto error = facts_.rank == 0 ? be_found() : find();
    if (!error && facts_.local_rank == 0 && master_.node != facts_.node_name)
      error = find_a_way();
    if (error)
      return *std::move(error);
    fill_plan();
    return std::move(meeting_);
  }

private:
  // Rank 0: take the ports, choose an address, tell srun.
  std::optional<Error> be_found() {
    auto place = take_place(this_node(), options_, reserved_, layout_ && layout_->nodes.size() == 1,
                            broker_.hosts);
    if (!place)
      return place.error();
    master_ = place->master;
    meeting_.store = std::move(place->store);
    meeting_.held = std::move(place->held);
    meeting_.jax = std::move(place->jax);
    report_.master = master_;
    // At a place that a node could not compute, rank 0 waits until srun has told all of them.
    bool computable = layout_ && (reserved_ || place->first_candidate);
    report_.want = computable ? Want::kNothing : Want::kLayout;
    auto said = ask(broker_, report_, wait_ + kAfterSrun);
    if (said.reach == Reach::kAnswered)
      return take_answer(said.answer);
    if (said.reach != Reach::kGone && computable)
      return std::nullopt; // the others get there without srun
    return Error{"cannot tell the other ranks where it is: " + said.error.message, said.error.hint};
  }

  // Every other rank.
  std::optional<Error> find() {
    bool first_on_node = facts_.local_rank == 0;
    if (layout_ && reserved_ && !names_interfaces(options_)) {
      if (auto address = certain_address(layout_->nodes.front().name)) {
        master_ = {layout_->nodes.front().name, *std::move(address), "", *reserved_};
        if (report_.has_row)
          exchange(broker_, report_, wait_ + kAfterSrun);
        else if (first_on_node)
          mention(broker_, report_);
        return std::nullopt;
      }
    }
    report_.want = layout_ ? Want::kMaster : Want::kLayout;
    // Where srun does not hear of rank 0, its node may be the one that cannot reach srun, and rank
    // 0 has gone on at the ports that every node can compute.
    bool met = false;
    auto found = ask(broker_, report_, wait_ + kAfterSrun, [&] {
      return met = layout_ && look_for_rank_zero(Clock::now() + kAddressTime);
    });
    return met ? std::nullopt : take_exchange(found);
  }

  std::optional<Error> take_exchange(const Exchange& found) {
    if (found.reach == Reach::kAnswered)
      return take_answer(found.answer);
    if (found.reach == Reach::kGone)
      return found.error;
    if (!layout_)
      return Error{"cannot learn where rank 0 is: " + found.error.message,
                   "ranks of this step follow no order that a node could compute alone; use "
                   "--distribution=plane=TASKS_PER_NODE, or let the nodes reach srun"};
    return meet_without_srun(found.error);
  }

  // The address that the name of rank 0's node has on Slurm's network: rank 0 takes the same one.
  // Any other name or address only rank 0 can judge.
  std::optional<std::string> certain_address(const std::string& node) const {
    auto slurm = slurm_address(broker_.hosts);
    for (auto& address : resolve(node))
      if (auto way = source_towards(address);
          !way.interface.empty() && way.interface == slurm.interface)
        return std::move(address);
    return std::nullopt;
  }

  std::optional<Error> take_answer(const Answer& answer) {
    auto waited = std::to_string(wait_.count()) + " s";
    if (answer.status == Status::kFailed)
      return Error{""};
    if (answer.status == Status::kPending) {
      std::string rank_zero = layout_ ? " on " + layout_->nodes.front().name : "";
      return Error{"waited " + waited + " for " + (layout_ ? "rank 0" + rank_zero : "all nodes") +
                       (answer.note.empty() ? "" : "; no sign of " + answer.note),
                   "look at that node's slurmd.log and at whether the plugin is installed there; "
                   "wait=SECONDS waits longer"};
    }
    if (report_.want == Want::kNothing)
      return std::nullopt;
    if (!is_literal_address(answer.master.address) || answer.master.ports.master == 0)
      return Error{"srun's answer has no address of rank 0", "the plugins' versions may differ"};
    master_ = answer.master;
    if (report_.want == Want::kLayout) {
      meeting_.plan.layout = answer.layout;
      meeting_.plan.node_rank = answer.node_rank;
      meeting_.plan.node_count = answer.node_count;
    }
    return std::nullopt;
  }

  // Without srun's broker: no long wait, see ask().
  std::optional<Error> meet_without_srun(const Error& why) {
    const auto& node = layout_->nodes.front().name;
    if (node != facts_.node_name && resolve(node).empty())
      return Error{"cannot find an address of rank 0's node " + node + ", and " + why.message,
                   why.hint};
    auto deadline = Clock::now() + std::min(wait_, kAloneTime);
    for (;;) {
      auto met = look_for_rank_zero(deadline);
      if (met)
        return std::nullopt;
      if (Clock::now() >= deadline)
        return Error{"does not find rank 0 on " + node + ": " + met.error().message + "; and " +
                         why.message,
                     "let the nodes reach srun's host, or set MpiParams=ports= in slurm.conf"};
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
  }

  // The first ports of the step's sequence on the first node, once. Something must listen there,
  // else the program would wait for nobody.
  Result<void> look_for_rank_zero(Clock::time_point deadline) {
    const auto& node = layout_->nodes.front().name;
    auto range = options_.port.value_or(kDefaultPorts);
    auto ports = reserved_ ? *reserved_ : port_candidate(facts_.id, range, 0);
    auto addresses =
        node == facts_.node_name ? std::vector<std::string>{"127.0.0.1"} : resolve(node);
    Error last{"its name is not known here", ""};
    for (const auto& address : addresses) {
      auto fd = connect_to(address, ports.store, std::min(deadline, Clock::now() + kAddressTime));
      if (fd) {
        master_ = {node, address_for_others(node, address), "", ports};
        return {};
      }
      last = fd.error();
    }
    return last;
  }

  // On rank 0's own node the loopback address served for the test only; what the other nodes use is
  // what rank 0 chooses.
  std::string address_for_others(const std::string& node, const std::string& tested) const {
    if (node != facts_.node_name)
      return tested;
    auto place = choose_address(this_node(), options_, layout_->nodes.size() == 1, broker_.hosts);
    return place ? place->address : tested;
  }

  // What a firewall between the nodes swallows frameworks try for half an hour. Asked once a node,
  // at a port where hardly a program listens: so nothing waits for rank 0, and no queue fills up.
  std::optional<Error> find_a_way() const {
    const auto& ports = master_.ports;
    auto answered = listens(master_.address, ports.jax != 0 ? ports.jax : ports.store,
                            Clock::now() + std::min(wait_, kWayTime));
    if (answered)
      return std::nullopt;
    auto range = options_.port.value_or(kDefaultPorts);
    return Error{"no way to rank 0 on " + master_.node + ": " + answered.error().message,
                 "let the nodes reach each other at the ports " +
                     (reserved_ ? "of MpiParams= in slurm.conf"
                                : std::to_string(range.low) + '-' + std::to_string(range.high)) +
                     " (a firewall?), or choose another network, iface=NAME"};
  }

  StepNode this_node() const { return {facts_.id, facts_.node_name, facts_.node_list}; }

  void fill_plan() {
    auto& plan = meeting_.plan;
    plan.id = facts_.id;
    plan.rank = facts_.rank;
    plan.world_size = facts_.world_size;
    plan.local_rank = facts_.local_rank;
    plan.local_world_size = static_cast<std::uint32_t>(facts_.node_ranks.size());
    if (layout_) {
      plan.layout = layout_text(*layout_);
      plan.node_rank = node_rank_of(*layout_, facts_.rank);
      plan.node_count = static_cast<std::uint32_t>(layout_->nodes.size());
    }
    plan.master_address = master_.address;
    plan.master_node = master_.node;
    plan.ports = master_.ports;
    plan.token = token_text(broker_.token);
    plan.interface =
        facts_.rank == 0 ? master_.interface : source_towards(master_.address).interface;
  }

  const SlurmFacts& facts_;
  const Options& options_;
  const BrokerAddress& broker_;
  std::optional<RankMap> layout_;
  std::chrono::seconds wait_;
  std::optional<Ports> reserved_;
  Report report_;
  Master master_;
  Meeting meeting_;
};

} // namespace

Report report_of(const SlurmFacts& facts, const Options& options, MappingRow row) {
  Report report;
  report.id = facts.id;
  report.world_size = facts.world_size;
  report.row = std::move(row);
  report.node_ranks = id_set_text(facts.node_ranks);
  report.node_list = facts.node_list;
  report.has_row = options.verbose.value_or(false) || options.dry_run.value_or(false);
  return report;
}

Result<Meeting> meet(const SlurmFacts& facts, const Options& options, const BrokerAddress& broker,
                     Report report) {
  return Attempt(facts, options, broker, std::move(report)).run();
}

} // namespace dist_train
