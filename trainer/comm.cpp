// SPDX-License-Identifier: BSD-3-Clause
#include "trainer/comm.h"

#include "trainer/ops.h"

namespace dist_train {

std::string Comm::name() const {
  if (!backend_)
    return "none";
  return backend_->getBackendName() == "nccl" ? "NCCL" : "Gloo";
}

// Partners in an order that spreads the load: rank + 1, rank + 2, ...
template <typename Part>
Pending Comm::exchange(const at::Tensor& out, Part in) {
  const int tag = next_tag_;
  next_tag_ = (next_tag_ + 1) % (1 << 24);
  const int64_t size = out.numel() / world_size_;
  Pending::Works works;
  for (int i = 1; i < world_size_; ++i) {
    const int from = (rank_ + world_size_ - i) % world_size_, to = (rank_ + i) % world_size_;
    std::vector<at::Tensor> received{out.narrow(0, from * size, size)}, sent{in(to)};
    works.push_back(backend_->recv(received, from, tag));
    works.push_back(backend_->send(sent, to, tag));
  }
  out.narrow(0, rank_ * size, size).copy_(in(rank_));
  return Pending(std::move(works));
}

Pending Comm::all_gather(at::Tensor out, at::Tensor in) {
  if (device_.is_cuda())
    return Pending({backend_->_allgather_base(out, in)});
  return exchange(out, [&](int) { return in; });
}

at::Tensor Comm::reduction_scratch(int64_t size, at::ScalarType type) const {
  const auto options = at::TensorOptions().device(device_);
  if (!device_.is_cuda()) // every rank's addend of this rank's part
    return at::zeros({size}, options.dtype(type));
  // NCCL adds in the type it sends, so bf16 becomes fp32 first and is reduced in place.
  return at::zeros({type == at::kFloat ? size / world_size_ : size}, options.dtype(at::kFloat));
}

Pending Comm::reduce_scatter(at::Tensor in, at::Tensor scratch) {
  const int64_t size = in.numel() / world_size_;
  if (!device_.is_cuda())
    return exchange(scratch, [&](int rank) { return in.narrow(0, rank * size, size); });
  if (scratch.numel() == size)
    return Pending({backend_->_reduce_scatter_base(scratch, in)});
  scratch.copy_(in);
  auto part = scratch.narrow(0, rank_ * size, size);
  return Pending({backend_->_reduce_scatter_base(part, scratch)});
}

void Comm::add_reduced(const at::Tensor& scratch, at::Tensor& sum, bool accumulate) const {
  const int64_t size = sum.numel();
  if (!device_.is_cuda())
    return sum_parts(scratch.view({world_size_, size}), sum, accumulate);
  const auto part = scratch.numel() == size ? scratch : scratch.narrow(0, rank_ * size, size);
  if (accumulate)
    sum.add_(part);
  else
    sum.copy_(part);
}

void Comm::all_reduce(at::Tensor tensor) {
  if (!backend_)
    return;
  std::vector<at::Tensor> tensors{std::move(tensor)};
  backend_->allreduce(tensors)->wait();
}

} // namespace dist_train
