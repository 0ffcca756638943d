// SPDX-License-Identifier: BSD-3-Clause
// What a task knows about itself and its step -> the changes to its environment. The one place
// that says which variables frameworks get.
#pragma once

#include "libstep/core/options.h"
#include "libstep/core/rank_map.h"
#include "libstep/core/rendezvous.h"

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace dist_train {

struct TaskPlan {
  StepId id;
  std::uint32_t rank = 0;
  std::uint32_t world_size = 1;
  std::uint32_t local_rank = 0;
  std::uint32_t local_world_size = 1;
  std::uint32_t node_rank = 0;
  std::uint32_t node_count = 1;
  std::string layout;         // layout_text(); "" where it is not known or too long
  std::string master_address; // literal address of rank 0's node
  std::string master_node;    // its name
  Ports ports;
  std::string broker;          // srun's address and port for what programs ask of it; "" if none
  std::string token;           // 32 lower-case hexadecimal digits
  std::string interface;       // of this node, towards master_address; "" if unknown
  std::uint32_t cores = 0;     // of the task; 0 if unknown
  std::uint32_t gpu_count = 0; // that the task sees; 0 if none or unknown
  std::string jax_devices;     // jax_device_ids(); "" leaves the variable alone
  std::string nccl_interfaces; // NCCL_SOCKET_IFNAME; "" leaves the choice to NCCL
  // Of placement: lists of visible devices; values where the user has set none; and what the task
  // got, "" where that is not known.
  std::vector<std::pair<std::string, std::string>> devices, defaults;
  std::string gpus, numa, nics;
  std::set<std::string> configured; // variables that a file of NCCL's sets
  int store_fd = -1;                // rank 0 only: inherited listening socket on ports.store
  int port_fd = -1;                 // rank 0 only: inherited socket that holds ports.master
  int jax_fd = -1;                  // rank 0 only: inherited socket that holds ports.jax
};

// An absent value removes the variable.
struct EnvChange {
  std::string name;
  std::optional<std::string> value;
};

struct EnvPlan {
  std::vector<EnvChange> changes;   // in the order to apply
  std::vector<std::string> notices; // for the user, to be shown once per step
};

using Environment = std::map<std::string, std::string, std::less<>>;

// Every variable that a task may get in one mode or another, but DIST_TRAIN_*: what the option's
// help and `dist-train env` show.
inline constexpr std::string_view kTaskVariables[] = {
    "RANK",
    "WORLD_SIZE",
    "LOCAL_RANK",
    "LOCAL_WORLD_SIZE",
    "NODE_RANK",
    "GROUP_RANK",
    "GROUP_WORLD_SIZE",
    "ROLE_RANK",
    "ROLE_WORLD_SIZE",
    "ROLE_NAME",
    "MASTER_ADDR",
    "MASTER_PORT",
    "SLURM_NTASKS_PER_NODE",
    "CROSS_RANK",
    "CROSS_SIZE",
    "LOCAL_SIZE",
    "PET_NNODES",
    "PET_NODE_RANK",
    "PET_NPROC_PER_NODE",
    "PET_MASTER_ADDR",
    "PET_MASTER_PORT",
    "PET_RDZV_BACKEND",
    "PET_RDZV_ID",
    "JAX_COORDINATOR_ADDRESS",
    "JAX_COORDINATOR_PORT",
    "JAX_NUM_PROCESSES",
    "JAX_PROCESS_ID",
    "JAX_LOCAL_DEVICE_IDS",
    "OMP_NUM_THREADS",
    "CUDA_VISIBLE_DEVICES",
    "ROCR_VISIBLE_DEVICES",
    "HIP_VISIBLE_DEVICES",
    "GPU_DEVICE_ORDINAL",
    "ZE_AFFINITY_MASK",
    "CUDA_DEVICE_ORDER",
    "NCCL_IB_HCA",
    "NCCL_SOCKET_IFNAME",
    "UCX_NET_DEVICES",
    "GLOO_SOCKET_IFNAME",
    "TP_SOCKET_IFNAME",
    "TORCH_NCCL_ASYNC_ERROR_HANDLING",
};

// The variable's value; "" where it is not set.
std::string_view value_of(const Environment& environment, std::string_view name);

// `inherited` is the task's environment before the changes.
EnvPlan task_environment(const TaskPlan& plan, const Options& options,
                         const Environment& inherited);

} // namespace dist_train
