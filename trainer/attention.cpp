// SPDX-License-Identifier: BSD-3-Clause
// Attention of packed documents: one call for each, so that neither a mask nor work across
// documents is needed. The queries that share a key head form the heads of one kernel "batch", and
// keys and values are expanded without a copy.
#include "trainer/ops.h"

namespace dist_train {
namespace {

struct Parts {
  at::Tensor q, k, v; // [kv_heads, heads / kv_heads, length, dim], views
};

int64_t group(const Attention& shape) { return shape.heads / shape.kv_heads; }

// A segment's rows of [T, kv_heads * n * dim] as [kv_heads, n, length, dim].
at::Tensor as_heads(const at::Tensor& rows, const Segment& segment, const Attention& shape,
                    int64_t n) {
  return rows.narrow(0, segment.begin, segment.length)
      .unflatten(1, {shape.kv_heads, n, shape.dim})
      .permute({1, 2, 0, 3});
}

Parts split(const at::Tensor& qkv, const Segment& segment, const Attention& shape) {
  const int64_t queries = shape.heads * shape.dim, keys = shape.kv_heads * shape.dim;
  return {as_heads(qkv.narrow(1, 0, queries), segment, shape, group(shape)),
          as_heads(qkv.narrow(1, queries, keys), segment, shape, 1),
          as_heads(qkv.narrow(1, queries + keys, keys), segment, shape, 1)};
}

} // namespace

Attended attend(const at::Tensor& qkv, const std::vector<Segment>& segments,
                const Attention& shape) {
  Attended attended{at::empty({qkv.size(0), shape.heads * shape.dim}, qkv.options()), {}};
  for (const Segment& segment : segments) {
    const auto [q, k, v] = split(qkv, segment, shape);
    auto out = as_heads(attended.out, segment, shape, group(shape));
    if (qkv.is_cpu()) {
      const auto [part, log_sum] = at::_scaled_dot_product_flash_attention_for_cpu(
          q, k.expand_as(q), v.expand_as(q), 0.0, true);
      out.copy_(part);
      attended.log_sums.push_back(log_sum);
    } else {
      out.copy_(at::scaled_dot_product_attention(q, k.expand_as(q), v.expand_as(q), {}, 0.0, true));
    }
  }
  return attended;
}

at::Tensor attend_backward(const at::Tensor& dout, const at::Tensor& qkv, const Attended& attended,
                           const std::vector<Segment>& segments, const Attention& shape) {
  auto dqkv = at::empty_like(qkv);
  for (size_t i = 0; i < segments.size(); ++i) {
    auto [q, k, v] = split(qkv, segments[i], shape);
    auto [dq, dk, dv] = split(dqkv, segments[i], shape);
    const auto d = as_heads(dout, segments[i], shape, group(shape));
    if (qkv.is_cpu()) {
      const auto out = as_heads(attended.out, segments[i], shape, group(shape));
      const auto [gq, gk, gv] = at::_scaled_dot_product_flash_attention_for_cpu_backward(
          d, q, k.expand_as(q), v.expand_as(q), out, attended.log_sums[i], 0.0, true);
      dq.copy_(gq);
      at::sum_out(dk, gk, 1, true);
      at::sum_out(dv, gv, 1, true);
    } else { // computed once more under autograd, whichever kernel ATen chose
      const at::AutoGradMode gradients(true);
      q = q.detach().requires_grad_();
      k = k.detach().requires_grad_();
      v = v.detach().requires_grad_();
      const auto out =
          at::scaled_dot_product_attention(q, k.expand_as(q), v.expand_as(q), {}, 0.0, true);
      const auto gradient = torch::autograd::grad({out}, {q, k, v}, {d});
      dq.copy_(gradient[0]);
      dk.copy_(gradient[1]);
      dv.copy_(gradient[2]);
    }
  }
  return dqkv;
}

} // namespace dist_train
