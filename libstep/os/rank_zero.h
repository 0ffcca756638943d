// SPDX-License-Identifier: BSD-3-Clause
// What rank 0's node does for the others: an address they can reach and ports that stay free.
// For the plugin, and for `dist-train exec` where there is none.
#pragma once

#include "libstep/core/options.h"
#include "libstep/core/rendezvous.h"
#include "libstep/os/fd.h"
#include "libstep/os/interfaces.h"

#include <optional>
#include <string>
#include <vector>

namespace dist_train {

// The step, seen from one of its nodes.
struct StepNode {
  StepId id;
  std::string name;
  std::string step_nodes; // host list of the step; "" where it is not known
};

struct Place {
  Master master;
  Fd store;                     // listens on master.ports.store
  Fd held;                      // bound to master.ports.master, does not listen
  Fd jax;                       // the same of master.ports.jax, if there is one
  bool first_candidate = false; // the ports are those that every node computes first
};

// This node's address on the network over which Slurm started the step, which all its nodes
// therefore have; empty texts if srun's addresses do not tell.
InterfaceAddress slurm_address(const std::vector<std::string>& srun_hosts);

// An address of this node: of the interfaces that iface= admits, else the one its name resolves to
// if that lies on Slurm's network or another node of the step answers there, else the one on
// Slurm's network, else any. Loopback only for a step of one node. Takes a second at most.
Result<InterfaceAddress> choose_address(const StepNode& node, const Options& options, bool one_node,
                                        const std::vector<std::string>& srun_hosts);

// Binds the reserved ports, or without them the first free candidate of the step.
Result<Place> take_place(const StepNode& node, const Options& options,
                         const std::optional<Ports>& reserved, bool one_node,
                         const std::vector<std::string>& srun_hosts);

} // namespace dist_train
