// SPDX-License-Identifier: BSD-3-Clause
// The operations of a Llama block besides matrix products, forward and backward, on any device.
// Tensors have one row per token, T rows in all. Statistics, angles and losses are fp32.
// On the CPU each is one pass of our own kernels; elsewhere it is an expression of ATen's.
#pragma once

#include "trainer/torch.h"

#include <vector>

namespace dist_train {

// Tokens of one document inside one row: they attend to each other only.
struct Segment {
  int64_t begin = 0; // of all tokens of the batch
  int64_t length = 0;
};

struct Normed {
  at::Tensor y;     // [T, hidden]
  at::Tensor scale; // [T] fp32: what each row was multiplied with
};
Normed rms_norm(const at::Tensor& x, const at::Tensor& weight, double epsilon);
at::Tensor rms_norm_again(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& scale);
// Adds the gradient of x to dx; that of the weight is written to dweight, or added to it.
void rms_norm_backward(const at::Tensor& dy, const at::Tensor& x, const at::Tensor& weight,
                       const at::Tensor& scale, at::Tensor& dx, at::Tensor& dweight,
                       bool accumulate);

// Turns the first `heads` heads of each row in place; cosine and sine are [T, dim/2] fp32.
// direction 1 turns forth, -1 back (the gradient).
void rotate_(at::Tensor& rows, const at::Tensor& cosine, const at::Tensor& sine, int64_t heads,
             int direction);

at::Tensor swiglu(const at::Tensor& gate_up); // [T, 2 inner] -> [T, inner]
// gate_up becomes its gradient; returns swiglu of what it was.
at::Tensor swiglu_backward_(const at::Tensor& dy, at::Tensor& gate_up);

// Causal attention inside each segment. A row of qkv is heads queries, kv_heads keys, kv_heads
// values of dim elements each.
struct Attention {
  int64_t heads = 0;
  int64_t kv_heads = 0;
  int64_t dim = 0;
  int64_t window = 0; // a token attends to the last `window` tokens up to itself; 0: to all
};
struct Attended {
  at::Tensor out;                   // [T, heads * dim]
  std::vector<at::Tensor> log_sums; // of the attention weights, per call, for the backward pass
};
Attended attend(const at::Tensor& qkv, const std::vector<Segment>&, const Attention&);
at::Tensor attend_backward(const at::Tensor& dout, const at::Tensor& qkv, const Attended&,
                           const std::vector<Segment>&, const Attention&); // gradient of qkv

// Adds the cross entropy summed over rows with a label (>= 0) to loss (fp64, one element); the
// logits become the gradient of that sum when `gradient` is set.
void cross_entropy_(at::Tensor& logits, const at::Tensor& labels, at::Tensor& loss, bool gradient);

// sum (fp32) = the sum of parts in their order, or that added to it. CPU only.
void sum_parts(const std::vector<at::Tensor>& parts, at::Tensor& sum, bool accumulate);

} // namespace dist_train
