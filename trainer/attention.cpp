// SPDX-License-Identifier: BSD-3-Clause
// Attention of packed documents: one call for each, so that neither a mask nor work across
// documents is needed; where a window ends within a document, one call for some of its queries. The
// queries that share a key head form the heads of one kernel "batch", and keys and values are
// expanded without a copy.
#include "trainer/ops.h"

namespace dist_train {
namespace {

// The queries and keys of one call.
struct Span {
  Segment queries, keys;
  at::Tensor mask; // [queries, keys], added to the scores; undefined: causal
};

struct Parts {
  at::Tensor q;    // [kv_heads, heads / kv_heads, length, dim], a view
  at::Tensor k, v; // [kv_heads, 1, length, dim]
};

int64_t group(const Attention& shape) { return shape.heads / shape.kv_heads; }

// Query i of a call sees keys i .. i + window - 1, the last of which is itself: always the same
// band, whose left part is missing for the document's first queries.
void add_windows(const Segment& segment, int64_t window, const at::TensorOptions& options,
                 std::vector<Span>& spans) {
  constexpr int64_t kQueries = 256; // of one call: few enough that the band is most of its keys
  const int64_t step = std::min(window, kQueries), reach = window - 1;
  const auto mask = at::full({step, step + reach}, -INFINITY, options).triu_(window);
  mask.add_(at::full_like(mask, -INFINITY).tril_(-1));
  for (int64_t begin = 0; begin < segment.length; begin += step) {
    const int64_t count = std::min(step, segment.length - begin);
    const int64_t back = std::min(begin, reach);
    spans.push_back({{segment.begin + begin, count},
                     {segment.begin + begin - back, back + count},
                     mask.narrow(0, 0, count).narrow(1, reach - back, back + count)});
  }
}

std::vector<Span> spans_of(const std::vector<Segment>& segments, const Attention& shape,
                           const at::TensorOptions& options) {
  std::vector<Span> spans;
  for (const Segment& segment : segments) {
    if (shape.window > 0 && shape.window < segment.length)
      add_windows(segment, shape.window, options, spans);
    else
      spans.push_back({segment, segment, {}});
  }
  return spans;
}

// A segment's rows of [T, kv_heads * n * dim] as [kv_heads, n, length, dim].
at::Tensor as_heads(const at::Tensor& rows, const Segment& segment, const Attention& shape,
                    int64_t n) {
  return rows.narrow(0, segment.begin, segment.length)
      .unflatten(1, {shape.kv_heads, n, shape.dim})
      .permute({1, 2, 0, 3});
}

Parts split(const at::Tensor& qkv, const Span& span, const Attention& shape) {
  const int64_t queries = shape.heads * shape.dim, keys = shape.kv_heads * shape.dim;
  return {as_heads(qkv.narrow(1, 0, queries), span.queries, shape, group(shape)),
          as_heads(qkv.narrow(1, queries, keys), span.keys, shape, 1),
          as_heads(qkv.narrow(1, queries + keys, keys), span.keys, shape, 1)};
}

at::Tensor for_all_queries(const at::Tensor& keys, const Attention& shape) {
  return keys.expand({-1, group(shape), -1, -1});
}

std::optional<at::Tensor> optional(const at::Tensor& mask) {
  return mask.defined() ? std::optional(mask) : std::nullopt;
}

} // namespace

Attended attend(const at::Tensor& qkv, const std::vector<Segment>& segments,
                const Attention& shape) {
  Attended attended{at::empty({qkv.size(0), shape.heads * shape.dim}, qkv.options()), {}};
  for (const Span& span : spans_of(segments, shape, qkv.options())) {
    const auto [q, k, v] = split(qkv, span, shape);
    const auto keys = for_all_queries(k, shape), values = for_all_queries(v, shape);
    const bool causal = !span.mask.defined();
    auto out = as_heads(attended.out, span.queries, shape, group(shape));
    if (qkv.is_cpu()) {
      const auto [part, log_sum] = at::_scaled_dot_product_flash_attention_for_cpu(
          q, keys, values, 0.0, causal, optional(span.mask));
      out.copy_(part);
      attended.log_sums.push_back(log_sum);
    } else {
      out.copy_(
          at::scaled_dot_product_attention(q, keys, values, optional(span.mask), 0.0, causal));
    }
  }
  return attended;
}

at::Tensor attend_backward(const at::Tensor& dout, const at::Tensor& qkv, const Attended& attended,
                           const std::vector<Segment>& segments, const Attention& shape) {
  const auto spans = spans_of(segments, shape, qkv.options());
  // The windows of neighbouring calls overlap.
  const bool windows = spans.size() > segments.size();
  auto dqkv = windows ? at::zeros_like(qkv) : at::empty_like(qkv);
  for (size_t i = 0; i < spans.size(); ++i) {
    const Span& span = spans[i];
    auto [q, k, v] = split(qkv, span, shape);
    auto [dq, dk, dv] = split(dqkv, span, shape);
    const bool causal = !span.mask.defined();
    const auto d = as_heads(dout, span.queries, shape, group(shape));
    at::Tensor gq, gk, gv;
    if (qkv.is_cpu()) {
      const auto out = as_heads(attended.out, span.queries, shape, group(shape));
      std::tie(gq, gk, gv) = at::_scaled_dot_product_flash_attention_for_cpu_backward(
          d, q, for_all_queries(k, shape), for_all_queries(v, shape), out, attended.log_sums[i],
          0.0, causal, optional(span.mask));
      gk = gk.sum(1, true);
      gv = gv.sum(1, true);
    } else { // computed once more under autograd, whichever kernel ATen chose
      const at::AutoGradMode gradients(true);
      q = q.detach().requires_grad_();
      k = k.detach().requires_grad_();
      v = v.detach().requires_grad_();
      const auto out =
          at::scaled_dot_product_attention(q, for_all_queries(k, shape), for_all_queries(v, shape),
                                           optional(span.mask), 0.0, causal);
      const auto gradient = torch::autograd::grad({out}, {q, k, v}, {d});
      gq = gradient[0], gk = gradient[1], gv = gradient[2];
    }
    dq.copy_(gq);
    if (windows) {
      dk.add_(gk);
      dv.add_(gv);
    } else {
      dk.copy_(gk);
      dv.copy_(gv);
    }
  }
  return dqkv;
}

} // namespace dist_train
