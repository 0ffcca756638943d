// SPDX-License-Identifier: BSD-3-Clause
// The model's parameters, gradients and optimizer states, each rank holding its shard of every
// unit. Whole units exist only in gather buffers: the gathered buffer is the memory the model
// computes with, and it is gathered while the unit before is computed. Gradients are written into
// flat buffers too and leave as one reduce-scatter a unit.
#pragma once

#include "trainer/comm.h"
#include "trainer/layout.h"

#include <vector>

namespace dist_train {

enum class Strategy {
  fsdp, // blocks share two gather buffers: parameters are gathered for each pass
  ddp,  // every unit keeps its own: gathered once after each optimizer step
};

// This rank's part of one unit; shard_size elements each.
struct Shard {
  at::Tensor master;     // fp32
  at::Tensor parameters; // what is gathered; the same memory as master in fp32
  at::Tensor gradient;   // fp32, summed over ranks and micro-steps
};

class Sharding {
public:
  Sharding(std::vector<Unit> units, Comm& comm, Strategy strategy, at::ScalarType type);

  const std::vector<Unit>& units() const { return units_; }
  int64_t shard_size(size_t unit) const { return units_[unit].size / comm_.world_size(); }
  Shard& shard(size_t unit) { return shards_[unit]; }
  Comm& comm() { return comm_; }
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
  // The unit's gradient is complete: starts its way into the shards.
  void reduce(size_t unit);
  // All reductions have arrived; the next ones add to the shards until begin_step().
  void finish_reductions();
  // The next reduction of every unit replaces the gradient in the shards.
  void begin_step();

private:
  struct GatherBuffer {
    at::Tensor flat;
    int64_t holder = -1; // unit whose parameters are here or on their way
    Pending work;
  };
  struct GradientBuffer {
    at::Tensor flat; // parameter type, [size]
    at::Tensor scratch;
    int64_t holder = -1; // unit whose reduction is under way
    Pending work;
  };
  bool alone() const { return comm_.world_size() == 1; }
  bool direct() const { return alone() && type_ == at::kFloat; } // gradients need no buffer
  size_t buffer_of(size_t unit, Strategy strategy) const;
  void arrive(GradientBuffer& buffer);

  std::vector<Unit> units_;
  Comm& comm_;
  Strategy strategy_;
  at::ScalarType type_;
  std::vector<Shard> shards_;
  std::vector<bool> has_gradient_; // since begin_step()
  std::vector<GatherBuffer> gather_buffers_;
  std::vector<GradientBuffer> gradient_buffers_;
};

} // namespace dist_train
