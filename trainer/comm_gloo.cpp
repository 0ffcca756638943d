// SPDX-License-Identifier: BSD-3-Clause
// The only file that sees Gloo's headers. The torch wheel ships none; those of another Gloo
// release serve, as all code comes from libtorch.
#include "trainer/comm.h"

#include "trainer/ops.h"

#ifndef USE_C10D_GLOO
#define USE_C10D_GLOO 1
#endif
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

namespace dist_train {
namespace {

using Works = std::vector<c10::intrusive_ptr<c10d::Work>>;

void wait_all(const Works& works) {
  for (const auto& work : works)
    work->wait();
}

// Gloo's own gather and scatter copy everything once more, and its scatter moves twice the bytes:
// ranks send each other their parts straight from and into place.
class Gloo : public Comm {
public:
  Gloo(c10::intrusive_ptr<c10d::Backend> backend, const Group& group)
      : Comm(group.rank, group.world_size, at::kCPU), backend_(std::move(backend)) {}

  std::string name() const override { return "Gloo"; }

  Pending all_gather(at::Tensor out, at::Tensor in) override {
    auto works = exchange(out, [&](int) { return in; });
    return Pending([works = std::move(works)] { wait_all(works); });
  }

  // Every rank's addend of this rank's part.
  at::Tensor reduction_scratch(int64_t size, at::ScalarType type) const override {
    return at::zeros({size}, type);
  }

  Pending reduce_scatter(at::Tensor in, at::Tensor scratch, at::Tensor sum,
                         bool accumulate) override {
    const int64_t size = in.numel() / world_size();
    auto works = exchange(scratch, [&](int rank) { return in.narrow(0, rank * size, size); });
    return Pending([this, works = std::move(works), size, scratch, sum, accumulate]() mutable {
      wait_all(works);
      std::vector<at::Tensor> parts;
      for (int rank = 0; rank < world_size(); ++rank)
        parts.push_back(scratch.narrow(0, rank * size, size));
      sum_parts(parts, sum, accumulate);
    });
  }

  void all_reduce(at::Tensor tensor) override {
    std::vector<at::Tensor> tensors{std::move(tensor)};
    backend_->allreduce(tensors)->wait();
  }

private:
  // Rank r's part of out comes from rank r; in(r) is what r gets. Partners in an order that spreads
  // the load: rank + 1, rank + 2, ...
  template <typename Part>
  Works exchange(const at::Tensor& out, Part in) {
    const int tag = next_tag_;
    next_tag_ = (next_tag_ + 1) % (1 << 24);
    const int64_t size = out.numel() / world_size();
    Works works;
    for (int i = 1; i < world_size(); ++i) {
      const int from = (rank() + world_size() - i) % world_size();
      const int to = (rank() + i) % world_size();
      std::vector<at::Tensor> received{out.narrow(0, from * size, size)}, sent{in(to)};
      works.push_back(backend_->recv(received, from, tag));
      works.push_back(backend_->send(sent, to, tag));
    }
    out.narrow(0, rank() * size, size).copy_(in(rank()));
    return works;
  }

  c10::intrusive_ptr<c10d::Backend> backend_;
  int next_tag_ = 0;
};

} // namespace

std::unique_ptr<Comm> make_gloo(const Group& group, const GlooEndpoint& endpoint) {
  using Backend = c10d::ProcessGroupGloo;
  auto options = Backend::Options::create(group.timeout);
  options->devices.push_back(endpoint.interface.empty()
                                 ? Backend::createDeviceForHostname(endpoint.address)
                                 : Backend::createDeviceForInterface(endpoint.interface));
  return std::make_unique<Gloo>(
      c10::make_intrusive<Backend>(group.store, group.rank, group.world_size, options), group);
}

} // namespace dist_train
