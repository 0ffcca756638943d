// SPDX-License-Identifier: BSD-3-Clause
// Collectives among the ranks of a group: NCCL between GPUs; between CPUs shared memory where all
// ranks are on one node, else Gloo. One interface, which the rest of the trainer knows.
#pragma once

#include "libstep/core/result.h"
#include "trainer/torch.h"

#include <libstep/step.h>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

namespace dist_train {

// A transfer under way. wait() ends it, once; it returns at once where there is none and throws
// when the transfer failed. On a GPU the stream waits, not the caller.
class Pending {
public:
  Pending() = default;
  explicit Pending(std::function<void()> finish) : finish_(std::move(finish)) {}
  void wait() {
    if (const auto finish = std::exchange(finish_, nullptr))
      finish();
  }

private:
  std::function<void()> finish_;
};

// Every rank of the group calls these in the same order with tensors of the same size. Tensors
// belong to the caller; not thread-safe.
class Comm {
public:
  Comm(int rank, int world_size, at::Device device)
      : rank_(rank), world_size_(world_size), device_(device) {}
  virtual ~Comm() = default;
  Comm(const Comm&) = delete;
  Comm& operator=(const Comm&) = delete;

  int rank() const { return rank_; }
  int world_size() const { return world_size_; }
  at::Device device() const { return device_; }
  virtual std::string name() const = 0; // "NCCL", "shared memory", ...; for people

  // Zeros that all_gather() and reduce_scatter() can send. It lives as long as the Comm.
  virtual at::Tensor buffer(int64_t size, at::ScalarType type);

  // The ranks' buffers like `part`, in rank order, as one tensor that lives as long as the Comm and
  // is for reading. Undefined where ranks do not see each other's memory. part.nbytes() is a
  // multiple of 4096.
  virtual at::Tensor whole(const at::Tensor& part);

  // out: the ranks' `in` in rank order, complete after wait(); whole(in) where that is defined.
  // `in` is a buffer() and must not change before the next all_reduce().
  virtual Pending all_gather(at::Tensor out, at::Tensor in) = 0;

  // The sum over ranks of `in`, a buffer() of fp32 or bf16: each rank gets its part, added in fp32
  // and in rank order, written to `sum` (fp32) or added to it. `in` may change and `sum` is
  // complete after wait(). scratch comes from reduction_scratch() and serves one reduction at a
  // time.
  virtual at::Tensor reduction_scratch(int64_t size, at::ScalarType type) const = 0;
  virtual Pending reduce_scatter(at::Tensor in, at::Tensor scratch, at::Tensor sum,
                                 bool accumulate) = 0;

  // The sum over ranks, in place; done on return, as are then all transfers begun before, on every
  // rank. Call it with nothing pending.
  virtual void all_reduce(at::Tensor tensor) = 0;

private:
  int rank_;
  int world_size_;
  at::Device device_;
};

// A world of one: nothing moves, and no reduction must be asked for.
std::unique_ptr<Comm> make_alone(at::Device device);

// Which library may carry the collectives of CPUs; GPUs have NCCL.
enum class Transport { fastest, gloo };

// The groups that a rank belongs to.
struct Links {
  std::unique_ptr<Comm> shards;   // the ranks that share one copy of the model
  std::unique_ptr<Comm> replicas; // those that hold the same part of other copies
  // The sum over all ranks; few values.
  void all_reduce(const at::Tensor& tensor) {
    shards->all_reduce(tensor);
    replicas->all_reduce(tensor);
  }
};

// Connects this rank to the others through the step's store: all of them as one group of shards, or
// those of each node (`by_node`; every node must have as many ranks). Takes this rank's GPU when
// the program was built for CUDA and one is visible, else the CPU.
Result<Links> connect(step_t* step, Transport transport, bool by_node, double timeout_seconds);

// What the transports are made of. The store is that of the group alone.
struct Group {
  c10::intrusive_ptr<c10d::Store> store;
  int rank = 0;
  int world_size = 1;
  std::chrono::milliseconds timeout{};
};

// For ranks of one node. nullptr on all ranks when one of them cannot map the memory of the others.
std::unique_ptr<Comm> make_shared_memory(const Group& group);

// Where Gloo should listen: the interface if it has a name, else the address.
struct GlooEndpoint {
  std::string interface;
  std::string address;
};
std::unique_ptr<Comm> make_gloo(const Group& group, const GlooEndpoint& endpoint);

#ifdef DIST_TRAIN_CUDA
// The GPU of a rank among those it sees (one, or one for each rank of the node, its own at
// local_rank), made current; none where no GPU is visible.
std::optional<at::Device> own_gpu(int local_rank);
std::unique_ptr<Comm> make_nccl(const Group& group, at::Device device);
#endif

} // namespace dist_train
