// SPDX-License-Identifier: BSD-3-Clause
#include "trainer/comm.h"

#ifndef USE_C10D_NCCL
#define USE_C10D_NCCL 1
#endif
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

namespace dist_train {

c10::intrusive_ptr<c10d::Backend> make_nccl(const c10::intrusive_ptr<c10d::Store>& store, int rank,
                                            int world_size, std::chrono::milliseconds timeout,
                                            at::Device device) {
  using Group = c10d::ProcessGroupNCCL;
  auto options = Group::Options::create(/*is_high_priority_stream=*/true);
  options->timeout = timeout;
  auto group = c10::make_intrusive<Group>(store, rank, world_size, options);
  group->eagerConnectSingleDevice(device);
  return group;
}

} // namespace dist_train
