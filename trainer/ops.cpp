// SPDX-License-Identifier: BSD-3-Clause
#include "trainer/ops.h"

#include "trainer/kernels_cpu.h"

namespace dist_train {
namespace {

// Calls f with the elements' type as the kernels know it.
template <typename F>
void with_type(const at::Tensor& tensor, F&& f) {
  if (tensor.scalar_type() == at::kBFloat16)
    f(cpu::BFloat16{});
  else
    f(float{});
}

template <typename T>
T* data(const at::Tensor& tensor) {
  return static_cast<T*>(tensor.data_ptr());
}

// Rows a thread should have at least, so that it works on some 32 KiB.
int64_t grain(int64_t width) { return std::max<int64_t>(1, 8192 / width); }

at::Tensor as_float(const at::Tensor& tensor) { return tensor.to(at::kFloat); }

} // namespace

Normed rms_norm(const at::Tensor& x, const at::Tensor& weight, double epsilon) {
  if (!x.is_cpu()) {
    auto scale = at::rsqrt(as_float(x).square().mean(-1).add_(epsilon));
    return {rms_norm_again(x, weight, scale), scale};
  }
  const int64_t rows = x.size(0), width = x.size(1);
  Normed normed{at::empty_like(x), at::empty({rows}, x.options().dtype(at::kFloat))};
  with_type(x, [&]<typename T>(T) {
    at::parallel_for(0, rows, grain(width), [&](int64_t begin, int64_t end) {
      cpu::rms_norm(data<T>(x) + begin * width, data<T>(weight), data<T>(normed.y) + begin * width,
                    data<float>(normed.scale) + begin, end - begin, width, float(epsilon));
    });
  });
  return normed;
}

at::Tensor rms_norm_again(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& scale) {
  if (!x.is_cpu())
    return as_float(x).mul_(scale.unsqueeze(-1)).to(x.scalar_type()).mul_(weight);
  const int64_t rows = x.size(0), width = x.size(1);
  auto y = at::empty_like(x);
  with_type(x, [&]<typename T>(T) {
    at::parallel_for(0, rows, grain(width), [&](int64_t begin, int64_t end) {
      cpu::rms_norm_again(data<T>(x) + begin * width, data<T>(weight), data<float>(scale) + begin,
                          data<T>(y) + begin * width, end - begin, width);
    });
  });
  return y;
}

void rms_norm_backward(const at::Tensor& dy, const at::Tensor& x, const at::Tensor& weight,
                       const at::Tensor& scale, at::Tensor& dx, at::Tensor& dweight,
                       bool accumulate) {
  const int64_t rows = x.size(0), width = x.size(1);
  at::Tensor sum;
  if (!x.is_cpu()) {
    const auto s = scale.unsqueeze(-1);
    const auto normed = as_float(x).mul_(s);
    const auto dnormed = as_float(dy).mul_(weight);
    sum = (as_float(dy) * normed).sum(0);
    dx.add_((dnormed - normed * (dnormed * normed).mean(-1, true)).mul_(s).to(dx.scalar_type()));
  } else {
    auto sums = at::zeros({at::get_num_threads(), width}, scale.options());
    with_type(x, [&]<typename T>(T) {
      at::parallel_for(0, rows, grain(width), [&](int64_t begin, int64_t end) {
        cpu::rms_norm_backward(
            data<T>(dy) + begin * width, data<T>(x) + begin * width, data<T>(weight),
            data<float>(scale) + begin, data<T>(dx) + begin * width,
            data<float>(sums) + at::get_thread_num() * width, end - begin, width);
      });
    });
    sum = sums.sum(0);
  }
  if (accumulate)
    dweight.add_(sum);
  else
    dweight.copy_(sum);
}

void rotate_(at::Tensor& rows, const at::Tensor& cosine, const at::Tensor& sine, int64_t heads,
             int direction) {
  const int64_t count = rows.size(0), half = cosine.size(1), dim = 2 * half;
  if (!rows.is_cpu()) {
    auto pairs = rows.narrow(1, 0, heads * dim).view({count, heads, 2, half});
    auto first = pairs.select(2, 0), second = pairs.select(2, 1);
    const auto a = as_float(first), b = as_float(second);
    const auto c = cosine.unsqueeze(1), s = (sine * direction).unsqueeze(1);
    first.copy_(a * c - b * s);
    second.copy_(b * c + a * s);
    return;
  }
  const int64_t stride = rows.stride(0);
  with_type(rows, [&]<typename T>(T) {
    at::parallel_for(0, count, grain(heads * dim), [&](int64_t begin, int64_t end) {
      cpu::rotate(data<T>(rows) + begin * stride, stride, data<float>(cosine) + begin * half,
                  data<float>(sine) + begin * half, end - begin, heads, dim, float(direction));
    });
  });
}

at::Tensor swiglu(const at::Tensor& gate_up) {
  const int64_t rows = gate_up.size(0), width = gate_up.size(1) / 2;
  if (!gate_up.is_cpu())
    return at::silu(gate_up.narrow(1, 0, width)).mul_(gate_up.narrow(1, width, width));
  auto y = at::empty({rows, width}, gate_up.options());
  with_type(gate_up, [&]<typename T>(T) {
    at::parallel_for(0, rows, grain(width), [&](int64_t begin, int64_t end) {
      cpu::swiglu(data<T>(gate_up) + begin * 2 * width, data<T>(y) + begin * width, end - begin,
                  width);
    });
  });
  return y;
}

at::Tensor swiglu_backward_(const at::Tensor& dy, at::Tensor& gate_up) {
  const int64_t rows = gate_up.size(0), width = gate_up.size(1) / 2;
  if (!gate_up.is_cpu()) {
    auto gate = gate_up.narrow(1, 0, width), up = gate_up.narrow(1, width, width);
    const auto silu = at::silu(gate);
    auto y = silu * up;
    gate.copy_(at::silu_backward(dy * up, gate));
    up.copy_(dy * silu);
    return y;
  }
  auto y = at::empty({rows, width}, gate_up.options());
  with_type(gate_up, [&]<typename T>(T) {
    at::parallel_for(0, rows, grain(width), [&](int64_t begin, int64_t end) {
      cpu::swiglu_backward(data<T>(dy) + begin * width, data<T>(gate_up) + begin * 2 * width,
                           data<T>(y) + begin * width, end - begin, width);
    });
  });
  return y;
}

void cross_entropy_(at::Tensor& logits, const at::Tensor& labels, at::Tensor& loss, bool gradient) {
  const int64_t rows = logits.size(0), width = logits.size(1);
  if (!logits.is_cpu()) {
    const auto counts = labels.ge(0);
    const auto index = labels.clamp_min(0).unsqueeze(1);
    auto log_p = at::log_softmax(as_float(logits), 1);
    loss.sub_(log_p.gather(1, index).squeeze(1).masked_fill_(~counts, 0).sum(at::kDouble));
    if (gradient) {
      log_p.exp_().scatter_add_(1, index, at::full({rows, 1}, -1.0, log_p.options()));
      logits.copy_(log_p.mul_(counts.unsqueeze(1)));
    }
    return;
  }
  auto sums = at::zeros({at::get_num_threads()}, loss.options());
  with_type(logits, [&]<typename T>(T) {
    at::parallel_for(0, rows, grain(width), [&](int64_t begin, int64_t end) {
      data<double>(sums)[at::get_thread_num()] +=
          cpu::cross_entropy(data<T>(logits) + begin * width, data<int64_t>(labels) + begin,
                             end - begin, width, gradient);
    });
  });
  loss.add_(sums.sum());
}

void sum_parts(const std::vector<at::Tensor>& parts, at::Tensor& sum, bool accumulate) {
  with_type(parts[0], [&]<typename T>(T) {
    std::vector<const T*> begins;
    for (const at::Tensor& part : parts)
      begins.push_back(data<T>(part));
    at::parallel_for(0, sum.numel(), 1 << 16, [&](int64_t begin, int64_t end) {
      cpu::sum_parts(begins.data(), int64_t(begins.size()), begin, end, data<float>(sum),
                     accumulate);
    });
  });
}

} // namespace dist_train
