// SPDX-License-Identifier: BSD-3-Clause
#include "trainer/comm.h"

#ifndef USE_C10D_NCCL
#define USE_C10D_NCCL 1
#endif
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

#include <c10/cuda/CUDAFunctions.h>

namespace dist_train {

std::optional<at::Device> own_gpu(int local_rank) {
  const int count = c10::cuda::device_count();
  if (count == 0)
    return {};
  const auto index = c10::DeviceIndex(local_rank % count);
  c10::cuda::set_device(index);
  return at::Device(at::kCUDA, index);
}

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
