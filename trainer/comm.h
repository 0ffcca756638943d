// SPDX-License-Identifier: BSD-3-Clause
// Collectives among the ranks of the step: NCCL between GPUs, Gloo between CPUs, one code path.
#pragma once

#include "libstep/core/result.h"
#include "trainer/torch.h"

#include <libstep/step.h>

#include <chrono>
#include <optional>
#include <string>

namespace dist_train {

// A collective under way. wait() returns at once where there was none to begin with.
class Pending {
public:
  Pending() = default;
  explicit Pending(c10::intrusive_ptr<c10d::Work> work) : work_(std::move(work)) {}
  // Throws c10::Error when the collective failed. On a GPU the stream waits, not the caller.
  void wait() {
    if (auto work = std::move(work_))
      work->wait();
  }

private:
  c10::intrusive_ptr<c10d::Work> work_;
};

// Every rank calls these in the same order with tensors of the same size. Tensors belong to the
// caller and stay untouched until wait(). Not thread-safe.
class Comm {
public:
  // A world of one: collectives must not be called.
  explicit Comm(at::Device device) : device_(device) {}
  Comm(c10::intrusive_ptr<c10d::Backend> backend, int rank, int world_size, at::Device device)
      : backend_(std::move(backend)), rank_(rank), world_size_(world_size), device_(device) {}

  int rank() const { return rank_; }
  int world_size() const { return world_size_; }
  at::Device device() const { return device_; }
  std::string name() const; // "NCCL", "Gloo" or "none"

  Pending all_gather(at::Tensor out, at::Tensor in);     // out: rank order
  Pending reduce_scatter(at::Tensor out, at::Tensor in); // sum; out: this rank's part
  void all_reduce(at::Tensor tensor);                    // sum, in place; done on return

private:
  c10::intrusive_ptr<c10d::Backend> backend_;
  int rank_ = 0;
  int world_size_ = 1;
  at::Device device_;
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
