// SPDX-License-Identifier: BSD-3-Clause
// One template per kernel, inlined into exported functions that the compiler clones per CPU
// generation. This file alone is compiled with -ffast-math, so that loops with exp() and sums
// become vector code.
#include "trainer/kernels_cpu.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define CLONES
#endif
#define INLINE inline __attribute__((always_inline))
// Before a loop whose iterations touch no element of each other: no checks for overlap at run time.
#define INDEPENDENT _Pragma("GCC ivdep")

namespace dist_train::cpu {
namespace {

INLINE float load(float value) { return value; }

INLINE float load(BFloat16 value) {
  const uint32_t bits = uint32_t(value.bits) << 16;
  float result;
  std::memcpy(&result, &bits, sizeof result);
  return result;
}

INLINE void store(float& to, float value) { to = value; }

INLINE void store(BFloat16& to, float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  const uint32_t rounded = bits + 0x7fff + ((bits >> 16) & 1); // to nearest, ties to even
  const bool is_nan = (bits & 0x7fffffff) > 0x7f800000;
  to.bits = uint16_t((is_nan ? 0x7fc00000 : rounded) >> 16);
}

template <typename T>
INLINE void norm_again(const T* x, const T* weight, const float* scale, T* y, int64_t rows,
                       int64_t width) {
  for (int64_t row = 0; row < rows; ++row, x += width, y += width)
    INDEPENDENT
  for (int64_t i = 0; i < width; ++i) {
    T normed; // rounded to the elements' type before the weight, as Hugging Face does
    store(normed, load(x[i]) * scale[row]);
    store(y[i], load(normed) * load(weight[i]));
  }
}

template <typename T>
INLINE void norm(const T* x, const T* weight, T* y, float* scale, int64_t rows, int64_t width,
                 float eps) {
  for (int64_t row = 0; row < rows; ++row) {
    const T* in = x + row * width;
    float sum = 0;
    for (int64_t i = 0; i < width; ++i)
      sum += load(in[i]) * load(in[i]);
    scale[row] = 1 / std::sqrt(sum / float(width) + eps);
  }
  norm_again(x, weight, scale, y, rows, width);
}

template <typename T>
INLINE void norm_backward(const T* dy, const T* x, const T* weight, const float* scale, T* dx,
                          float* dweight, int64_t rows, int64_t width) {
  for (int64_t row = 0; row < rows; ++row, dy += width, x += width, dx += width) {
    const float s = scale[row];
    float dot = 0; // of dy * weight with x
    INDEPENDENT
    for (int64_t i = 0; i < width; ++i) {
      const float product = load(dy[i]) * load(x[i]);
      dot += product * load(weight[i]);
      dweight[i] += product * s;
    }
    const float shrink = dot * s * s * s / float(width);
    INDEPENDENT
    for (int64_t i = 0; i < width; ++i)
      store(dx[i], load(dx[i]) + load(dy[i]) * load(weight[i]) * s - load(x[i]) * shrink);
  }
}

template <typename T>
INLINE void turn(T* rows_begin, int64_t stride, const float* cosine, const float* sine,
                 int64_t rows, int64_t heads, int64_t dim, float direction) {
  const int64_t half = dim / 2;
  for (int64_t row = 0; row < rows; ++row, rows_begin += stride, cosine += half, sine += half)
    for (int64_t head = 0; head < heads; ++head) {
      T* first = rows_begin + head * dim;
      T* second = first + half;
      INDEPENDENT
      for (int64_t i = 0; i < half; ++i) {
        const float a = load(first[i]), b = load(second[i]);
        const float c = cosine[i], s = sine[i] * direction;
        store(first[i], a * c - b * s);
        store(second[i], b * c + a * s);
      }
    }
}

template <typename T>
INLINE void glu(const T* gate_up, T* y, int64_t rows, int64_t width) {
  for (int64_t row = 0; row < rows; ++row, gate_up += 2 * width, y += width) {
    const T* up = gate_up + width;
    INDEPENDENT
    for (int64_t i = 0; i < width; ++i) {
      const float gate = load(gate_up[i]);
      store(y[i], gate / (1 + std::exp(-gate)) * load(up[i]));
    }
  }
}

template <typename T>
INLINE void glu_backward(const T* dy, T* gate_up, T* y, int64_t rows, int64_t width) {
  for (int64_t row = 0; row < rows; ++row, dy += width, gate_up += 2 * width, y += width) {
    T* ups = gate_up + width;
    INDEPENDENT
    for (int64_t i = 0; i < width; ++i) {
      const float gate = load(gate_up[i]), up = load(ups[i]), d = load(dy[i]);
      const float sigmoid = 1 / (1 + std::exp(-gate));
      const float silu = gate * sigmoid;
      store(y[i], silu * up);
      store(ups[i], d * silu);
      store(gate_up[i], d * up * sigmoid * (1 + gate * (1 - sigmoid)));
    }
  }
}

template <typename T>
INLINE double entropy(T* logits, const int64_t* labels, int64_t rows, int64_t width,
                      bool gradient) {
  double total = 0;
  std::vector<float> exponentials(static_cast<size_t>(width));
  float* e = exponentials.data();
  for (int64_t row = 0; row < rows; ++row, logits += width) {
    const int64_t label = labels[row];
    if (label < 0) {
      if (gradient)
        std::memset(static_cast<void*>(logits), 0, size_t(width) * sizeof(T));
      continue;
    }
    float largest = load(logits[0]);
    for (int64_t i = 1; i < width; ++i)
      largest = std::max(largest, load(logits[i]));
    float sum = 0;
    for (int64_t i = 0; i < width; ++i) {
      e[i] = std::exp(load(logits[i]) - largest);
      sum += e[i];
    }
    total += double(std::log(sum)) + double(largest) - double(load(logits[label]));
    if (!gradient)
      continue;
    const float factor = 1 / sum;
    e[label] -= sum;
    INDEPENDENT
    for (int64_t i = 0; i < width; ++i)
      store(logits[i], e[i] * factor);
  }
  return total;
}

template <typename T>
INLINE void add_parts(const T* const* parts, int64_t count, int64_t begin, int64_t end, float* sum,
                      bool accumulate) {
  constexpr int64_t kBlock = 2048; // stays in the first-level cache while the parts are added
  for (; begin < end; begin += kBlock) {
    const int64_t length = std::min(kBlock, end - begin);
    float* to = sum + begin;
    if (!accumulate)
      std::fill_n(to, length, 0.0f);
    for (int64_t part = 0; part < count; ++part) {
      const T* from = parts[part] + begin;
      INDEPENDENT
      for (int64_t i = 0; i < length; ++i)
        to[i] += load(from[i]);
    }
  }
}

template <bool Copies>
INLINE void adamw_range(float* master, const float* gradient, float* average, float* square,
                        BFloat16* parameters, int64_t size, const AdamWStep& step) {
  const float keep = 1 - step.learning_rate * step.weight_decay;
  const float rate = step.learning_rate / step.correction1;
  const float root = 1 / std::sqrt(step.correction2);
  const float scale = step.gradient_scale, epsilon = step.epsilon;
  const float beta1 = step.beta1, beta2 = step.beta2;
  INDEPENDENT
  for (int64_t i = 0; i < size; ++i) {
    const float g = gradient[i] * scale;
    const float m = average[i] + (1 - beta1) * (g - average[i]);
    const float v = beta2 * square[i] + (1 - beta2) * g * g;
    const float p = master[i] * keep - rate * m / (std::sqrt(v) * root + epsilon);
    average[i] = m;
    square[i] = v;
    master[i] = p;
    if constexpr (Copies)
      store(parameters[i], p);
  }
}

} // namespace

// The exported functions, once for each element type.
#define DEFINE_KERNELS(T)                                                                          \
  CLONES void rms_norm(const T* x, const T* weight, T* y, float* scale, int64_t rows,              \
                       int64_t width, float eps) {                                                 \
    norm(x, weight, y, scale, rows, width, eps);                                                   \
  }                                                                                                \
  CLONES void rms_norm_again(const T* x, const T* weight, const float* scale, T* y, int64_t rows,  \
                             int64_t width) {                                                      \
    norm_again(x, weight, scale, y, rows, width);                                                  \
  }                                                                                                \
  CLONES void rms_norm_backward(const T* dy, const T* x, const T* weight, const float* scale,      \
                                T* dx, float* dweight, int64_t rows, int64_t width) {              \
    norm_backward(dy, x, weight, scale, dx, dweight, rows, width);                                 \
  }                                                                                                \
  CLONES void rotate(T* rows_begin, int64_t stride, const float* cosine, const float* sine,        \
                     int64_t rows, int64_t heads, int64_t dim, float direction) {                  \
    turn(rows_begin, stride, cosine, sine, rows, heads, dim, direction);                           \
  }                                                                                                \
  CLONES void swiglu(const T* gate_up, T* y, int64_t rows, int64_t width) {                        \
    glu(gate_up, y, rows, width);                                                                  \
  }                                                                                                \
  CLONES void swiglu_backward(const T* dy, T* gate_up, T* y, int64_t rows, int64_t width) {        \
    glu_backward(dy, gate_up, y, rows, width);                                                     \
  }                                                                                                \
  CLONES double cross_entropy(T* logits, const int64_t* labels, int64_t rows, int64_t width,       \
                              bool gradient) {                                                     \
    return entropy(logits, labels, rows, width, gradient);                                         \
  }                                                                                                \
  CLONES void sum_parts(const T* const* parts, int64_t count, int64_t begin, int64_t end,          \
                        float* sum, bool accumulate) {                                             \
    add_parts(parts, count, begin, end, sum, accumulate);                                          \
  }

DEFINE_KERNELS(float)
DEFINE_KERNELS(BFloat16)

CLONES void adamw(float* master, const float* gradient, float* average, float* square,
                  BFloat16* parameters, int64_t size, const AdamWStep& step) {
  if (parameters)
    adamw_range<true>(master, gradient, average, square, parameters, size, step);
  else
    adamw_range<false>(master, gradient, average, square, nullptr, size, step);
}

CLONES double squared_norm(const float* values, int64_t size) {
  constexpr int64_t kBlock = 4096;
  double total = 0;
  for (int64_t begin = 0; begin < size; begin += kBlock) {
    const int64_t end = std::min(size, begin + kBlock);
    float sum = 0;
    for (int64_t i = begin; i < end; ++i)
      sum += values[i] * values[i];
    total += double(sum);
  }
  return total;
}

} // namespace dist_train::cpu
