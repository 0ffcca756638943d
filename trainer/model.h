// SPDX-License-Identifier: BSD-3-Clause
// A model of the Llama kind as functions over values: weights are views of flat buffers,
// activations are tensors of one row per token, gradients are computed by hand and written in
// place. Nothing here knows about ranks.
#pragma once

#include "trainer/layout.h"
#include "trainer/ops.h"

#include <vector>

namespace dist_train {

// What the model sees at once: whole rows, one after the other, on the training's device.
struct Batch {
  at::Tensor tokens;             // [T] int64
  at::Tensor labels;             // [T] int64: the token to predict, -1: none
  std::vector<Segment> segments; // documents, in order; they cover all T tokens
  int64_t label_count = 0;
};

// Angles of every token's position in its document, [T, head_dim / 2] fp32.
struct Angles {
  at::Tensor cosine;
  at::Tensor sine;
};
Angles angles(const ModelConfig&, const std::vector<Segment>&, at::Device);

// A linear layer, or several with the same input as one; [out, in] and [out].
struct Linear {
  at::Tensor weight;
  at::Tensor bias; // undefined where there is none
};

// Views of a block's flat buffer (parameters or gradients); q, k, v and gate, up as one layer each.
struct BlockTensors {
  at::Tensor input_norm;
  Linear qkv;
  at::Tensor q_norm, k_norm; // undefined unless the model has them
  Linear attention_out;
  at::Tensor inner_norm;
  Linear gate_up, down;
  int64_t window; // of the attention; 0: the whole document
};
BlockTensors block_tensors(const Unit&, const at::Tensor& flat);

// Any one tensor of a unit.
at::Tensor slot_tensor(const Slot&, const at::Tensor& flat);

// What the backward pass needs of a block; the rest is computed anew.
struct BlockSaved {
  at::Tensor x, input_scale; // block input
  at::Tensor qkv;            // turned by the angles; with q and k norms as it was before them
  Attended attended;
  at::Tensor inner, inner_scale; // after attention and residual
  at::Tensor gate_up;
};

// Activations that the backward pass computes anew instead of finding them kept.
enum class Checkpointing {
  none,
  selective, // what comes after attention; attention itself, the dearest, is kept
  block,     // all but the block's input
};

// Returns the block's output; fills `saved`, less what is to be computed anew, unless it is null
// (evaluation).
at::Tensor block_forward(const ModelConfig&, const BlockTensors& weights, const Angles&,
                         const std::vector<Segment>&, const at::Tensor& x, Checkpointing,
                         BlockSaved* saved);

// Turns dy, the gradient of the block's output, into that of its input, in place. The weights'
// gradients are written to `gradients`, or added with `accumulate`. `saved` is used up.
void block_backward(const ModelConfig&, const BlockTensors& weights, BlockTensors& gradients,
                    bool accumulate, const Angles&, const std::vector<Segment>&, BlockSaved saved,
                    at::Tensor& dy);

at::Tensor embed(const at::Tensor& table, const at::Tensor& tokens);
void embed_backward(const at::Tensor& dx, const at::Tensor& tokens, at::Tensor& dtable,
                    bool accumulate);

// Final norm, head and loss, some tokens at a time so that the logits of all never exist at once.
// The summed loss is added to `loss` (fp64). With gradients given, returns the gradient of x.
struct HeadTensors {
  at::Tensor norm, head;
};
at::Tensor head_loss(const ModelConfig&, const HeadTensors& weights, HeadTensors* gradients,
                     bool accumulate, const at::Tensor& x, const at::Tensor& labels,
                     at::Tensor& loss);

// All logits, [T, vocabulary]: for small batches and comparisons.
at::Tensor head_logits(const ModelConfig&, const HeadTensors& weights, const at::Tensor& x);

} // namespace dist_train
