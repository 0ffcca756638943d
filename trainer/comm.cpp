// SPDX-License-Identifier: BSD-3-Clause
#include "trainer/comm.h"

namespace dist_train {
namespace {

class Alone : public Comm {
public:
  explicit Alone(at::Device device) : Comm(0, 1, device) {}
  std::string name() const override { return "none"; }
  at::Tensor whole(const at::Tensor& part) override { return part; }
  Pending all_gather(at::Tensor, at::Tensor) override { return {}; }
  at::Tensor reduction_scratch(int64_t, at::ScalarType) const override { return {}; }
  Pending reduce_scatter(at::Tensor, at::Tensor, at::Tensor, bool) override { return {}; }
  void all_reduce(at::Tensor) override {}
};

} // namespace

at::Tensor Comm::buffer(int64_t size, at::ScalarType type) {
  return at::zeros({size}, at::TensorOptions().dtype(type).device(device_));
}

at::Tensor Comm::whole(const at::Tensor&) { return {}; }

std::unique_ptr<Comm> make_alone(at::Device device) { return std::make_unique<Alone>(device); }

} // namespace dist_train
