// SPDX-License-Identifier: BSD-3-Clause
// Collectives among the ranks of the step: NCCL between GPUs, Gloo between CPUs, one code path.
#pragma once

#include "libstep/core/result.h"
#include "trainer/torch.h"

#include <libstep/step.h>

#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace dist_train {

// Transfers under way. wait() returns at once where there are none.
class Pending {
public:
  using Works = std::vector<c10::intrusive_ptr<c10d::Work>>;
  Pending() = default;
  explicit Pending(Works works) : works_(std::move(works)) {}
  // Throws c10::Error when one failed. On a GPU the stream waits, not the caller.
  void wait() {
    for (const auto& work : std::exchange(works_, {}))
      work->wait();
  }

private:
  Works works_;
};

// Every rank calls these in the same order with tensors of the same size. Tensors belong to the
// caller and stay untouched until wait(). Not thread-safe.
//
// NCCL has its own gather and scatter. Gloo's copy everything once more, and its scatter moves
// twice the bytes; there ranks send each other their parts straight from and into place.
class Comm {
public:
  // A world of one: only add_reduced() and all_reduce() may be called.
  explicit Comm(at::Device device) : device_(device) {}
  Comm(c10::intrusive_ptr<c10d::Backend> backend, int rank, int world_size, at::Device device)
      : backend_(std::move(backend)), rank_(rank), world_size_(world_size), device_(device) {}

  int rank() const { return rank_; }
  int world_size() const { return world_size_; }
  at::Device device() const { return device_; }
  std::string name() const; // "NCCL", "Gloo" or "none"

  // out: the ranks' `in` in rank order.
  Pending all_gather(at::Tensor out, at::Tensor in);

  // Starts the sum over ranks of `in` (fp32 or bf16), of which each rank gets its part in fp32
  // arithmetic. After wait(), add_reduced() writes that part to `sum` (fp32), or adds it; in a
  // world of one `in` itself serves as scratch.
  // scratch comes from reduction_scratch() and is used by one reduction at a time.
  at::Tensor reduction_scratch(int64_t size, at::ScalarType type) const;
  Pending reduce_scatter(at::Tensor in, at::Tensor scratch);
  void add_reduced(const at::Tensor& scratch, at::Tensor& sum, bool accumulate) const;

  void all_reduce(at::Tensor tensor); // sum, in place; done on return

private:
  // Rank r's part of out comes from rank r; in(r) is what r gets.
  template <typename Part>
  Pending exchange(const at::Tensor& out, Part in);

  c10::intrusive_ptr<c10d::Backend> backend_;
  int rank_ = 0;
  int world_size_ = 1;
  at::Device device_;
  int next_tag_ = 0;
};

// Connects this rank to the others through the step's store. Takes this rank's GPU when the
// program was built for CUDA and one is visible, else the CPU.
Result<Comm> connect(step_t* step, double timeout_seconds);

// Where Gloo should listen: the interface if it has a name, else the address.
struct GlooEndpoint {
  std::string interface;
  std::string address;
};
c10::intrusive_ptr<c10d::Backend> make_gloo(const c10::intrusive_ptr<c10d::Store>&, int rank,
                                            int world_size, std::chrono::milliseconds timeout,
                                            const GlooEndpoint&);
#ifdef DIST_TRAIN_CUDA
// The GPU of a rank among those it sees (one, or one for each rank of the node, its own at
// local_rank), made current; none where no GPU is visible.
std::optional<at::Device> own_gpu(int local_rank);
c10::intrusive_ptr<c10d::Backend> make_nccl(const c10::intrusive_ptr<c10d::Store>&, int rank,
                                            int world_size, std::chrono::milliseconds timeout,
                                            at::Device);
#endif

} // namespace dist_train
