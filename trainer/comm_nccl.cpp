// SPDX-License-Identifier: BSD-3-Clause
#include "trainer/comm.h"

#ifndef USE_C10D_NCCL
#define USE_C10D_NCCL 1
#endif
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

#include <c10/cuda/CUDAFunctions.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

namespace dist_train {
namespace {

using Backend = c10d::ProcessGroupNCCL;

class Nccl : public Comm {
public:
  Nccl(c10::intrusive_ptr<Backend> gathers, c10::intrusive_ptr<Backend> scatters,
       const Group& group, at::Device device)
      : Comm(group.rank, group.world_size, device), gathers_(std::move(gathers)),
        scatters_(std::move(scatters)) {}

  std::string name() const override { return "NCCL"; }

  Pending all_gather(at::Tensor out, at::Tensor in) override {
    return Pending([work = gathers_->_allgather_base(out, in)] { work->wait(); });
  }

  // NCCL adds in the type it sends, so bf16 becomes fp32 first and is reduced in place.
  at::Tensor reduction_scratch(int64_t size, at::ScalarType type) const override {
    return at::zeros({type == at::kFloat ? size / world_size() : size},
                     at::TensorOptions().dtype(at::kFloat).device(device()));
  }

  Pending reduce_scatter(at::Tensor in, at::Tensor scratch, at::Tensor sum,
                         bool accumulate) override {
    const int64_t size = in.numel() / world_size();
    auto part = scratch;
    if (scratch.numel() != size) {
      scratch.copy_(in);
      part = scratch.narrow(0, rank() * size, size);
      in = scratch;
    }
    return Pending([work = scatters_->_reduce_scatter_base(part, in), part, sum, accumulate] {
      work->wait();
      if (accumulate)
        sum.add_(part);
      else
        sum.copy_(part);
    });
  }

  void all_reduce(at::Tensor tensor) override {
    std::vector<at::Tensor> tensors{std::move(tensor)};
    scatters_->allreduce(tensors)->wait();
  }

private:
  // Collectives of one communicator run in the order of their calls; with one of their own, gathers
  // of what comes next need not wait for the sums of what was.
  c10::intrusive_ptr<Backend> gathers_, scatters_;
};

} // namespace

std::optional<at::Device> own_gpu(int local_rank) {
  const int count = c10::cuda::device_count();
  if (count == 0)
    return {};
  const auto index = c10::DeviceIndex(local_rank % count);
  c10::cuda::set_device(index);
  return at::Device(at::kCUDA, index);
}

std::unique_ptr<Comm> make_nccl(const Group& group, at::Device device) {
  const auto communicator = [&](const char* prefix) {
    auto options = Backend::Options::create(/*is_high_priority_stream=*/true);
    options->timeout = group.timeout;
    auto backend =
        c10::make_intrusive<Backend>(c10::make_intrusive<c10d::PrefixStore>(prefix, group.store),
                                     group.rank, group.world_size, options);
    backend->eagerConnectSingleDevice(device);
    return backend;
  };
  auto gathers = communicator("gather");
  return std::make_unique<Nccl>(std::move(gathers), communicator("scatter"), group, device);
}

} // namespace dist_train
