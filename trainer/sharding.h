// SPDX-License-Identifier: BSD-3-Clause
// The model's parameters, gradients and optimizer states, each rank holding its shard of every
// unit. Whole units exist only in gather buffers: the gathered buffer is the memory the model
// computes with, and it is gathered while the unit before is computed. Ranks that see each other's
// memory need no such buffers: there the shards themselves are seen as one. Gradients are written
// into flat buffers too and leave as one reduce-scatter a unit.
#pragma once

#include "trainer/comm.h"
#include "trainer/layout.h"

#include <vector>

namespace dist_train {

enum class Strategy {
  fsdp,  // blocks share two gather buffers: parameters are gathered for each pass
  hsdp,  // fsdp among the ranks of a node; the sums of the nodes are added once a step
  zero2, // every unit keeps its own: gathered once after each optimizer step
  ddp,   // the same, and gradients of several passes stay on the rank until the last of a step
};

// This rank's part of one unit; shard_size elements each.
struct Shard {
  at::Tensor master;     // fp32
  at::Tensor parameters; // what is gathered; the same memory as master in fp32
  at::Tensor gradient;   // fp32, summed over ranks and micro-steps
};

class Sharding {
public:
  // passes: forward and backward passes of one optimizer step.
  Sharding(std::vector<Unit> units, Links& links, Strategy strategy, at::ScalarType type,
           int64_t passes);

  const std::vector<Unit>& units() const { return units_; }
  int64_t shard_size(size_t unit) const { return units_[unit].size / comm_.world_size(); }
  Shard& shard(size_t unit) { return shards_[unit]; }
  Comm& comm() { return comm_; } // of the ranks that the parameters are divided among
  // One rank of all: the first that holds the first shard.
  bool leads() const { return comm_.rank() == 0 && first_replica(); }
  bool first_replica() const { return replicas_.rank() == 0; }
  at::ScalarType type() const { return type_; }

  // Starts the gather of a unit unless its parameters are here or under way.
  void prefetch(size_t unit);
  // The unit's parameters, [size]; valid until another unit with the same buffer is gathered.
  const at::Tensor& gathered(size_t unit);
  // Call after the shards' parameters changed: what was gathered is old.
  void parameters_changed();

  // Where the unit's gradient is to be written. `accumulate`: add to what is there.
  struct Gradient {
    at::Tensor flat;
    bool accumulate;
  };
  Gradient gradient(size_t unit);
  // The unit's gradient of this pass is complete: starts its way into the shards.
  void reduce(size_t unit);
  // The first reduction of every unit from here on replaces the gradient in the shards, further
  // ones add to it. Expects as many passes as the constructor was told.
  void begin_step();
  // After the backward pass of each but the last pass of a step.
  void end_pass() { ++pass_; }
  // After the last: the shards hold the sums over all ranks.
  void finish_reductions();

private:
  struct GatherBuffer {
    at::Tensor flat;
    int64_t holder = -1; // unit whose parameters are here or on their way
    Pending work;
  };
  struct GradientBuffer {
    at::Tensor flat; // parameter type, [size]
    at::Tensor scratch;
    Pending work; // the reduction that still reads it
  };
  bool alone() const { return comm_.world_size() == 1; }
  bool direct() const { return alone() && type_ == at::kFloat; } // gradients need no buffer
  // Sums of bf16 would lose what the later passes add, so those are reduced in fp32 at each pass.
  bool keeps_gradients() const {
    return strategy_ == Strategy::ddp && passes_ > 1 && type_ == at::kFloat;
  }
  bool keeps_parameters() const {
    return strategy_ == Strategy::zero2 || strategy_ == Strategy::ddp || sees_parts_;
  }
  size_t buffer_of(size_t unit, bool own) const;

  std::vector<Unit> units_;
  Comm& comm_;
  Comm& replicas_;
  Strategy strategy_;
  at::ScalarType type_;
  int64_t passes_;
  bool sees_parts_ = false; // units are whole in memory without a gather buffer
  int64_t pass_ = 0;        // of this step
  std::vector<Shard> shards_;
  std::vector<bool> has_gradient_; // since begin_step()
  std::vector<GatherBuffer> gather_buffers_;
  std::vector<GradientBuffer> gradient_buffers_;
};

} // namespace dist_train
