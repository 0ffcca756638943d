// SPDX-License-Identifier: BSD-3-Clause
#include "trainer/comm.h"

namespace dist_train {

std::string Comm::name() const {
  if (!backend_)
    return "none";
  return backend_->getBackendName() == "nccl" ? "NCCL" : "Gloo";
}

Pending Comm::all_gather(at::Tensor out, at::Tensor in) {
  return Pending(backend_->_allgather_base(out, in));
}

Pending Comm::reduce_scatter(at::Tensor out, at::Tensor in) {
  return Pending(backend_->_reduce_scatter_base(out, in));
}

void Comm::all_reduce(at::Tensor tensor) {
  if (!backend_)
    return;
  std::vector<at::Tensor> tensors{std::move(tensor)};
  backend_->allreduce(tensors)->wait();
}

} // namespace dist_train
