// SPDX-License-Identifier: BSD-3-Clause
// The memory-bound parts of a block on the CPU, each in one pass over its data. Arithmetic is
// fp32 whatever the elements are. Rows are contiguous unless a stride is given; the caller divides
// rows among threads. No torch.
#pragma once

#include <cstdint>

namespace dist_train::cpu {

// Storage of a bfloat16, as the upper half of a float.
struct BFloat16 {
  uint16_t bits;
};

// y = x * scale * weight with scale = 1 / sqrt(mean(x^2) + eps), which is stored for each row.
void rms_norm(const float* x, const float* weight, float* y, float* scale, int64_t rows,
              int64_t width, float eps);
void rms_norm(const BFloat16* x, const BFloat16* weight, BFloat16* y, float* scale, int64_t rows,
              int64_t width, float eps);

// The same from known scales.
void rms_norm_again(const float* x, const float* weight, const float* scale, float* y, int64_t rows,
                    int64_t width);
void rms_norm_again(const BFloat16* x, const BFloat16* weight, const float* scale, BFloat16* y,
                    int64_t rows, int64_t width);

// dx += the gradient of x; dweight (fp32, width) += that of the weight.
void rms_norm_backward(const float* dy, const float* x, const float* weight, const float* scale,
                       float* dx, float* dweight, int64_t rows, int64_t width);
void rms_norm_backward(const BFloat16* dy, const BFloat16* x, const BFloat16* weight,
                       const float* scale, BFloat16* dx, float* dweight, int64_t rows,
                       int64_t width);

// Turns `heads` heads of each row (stride elements apart) in place by the angles whose cosines and
// sines are given per row (dim/2 each); first and second half of a head make the pairs.
// direction -1 turns back, which is the gradient too.
void rotate(float* rows_begin, int64_t stride, const float* cosine, const float* sine, int64_t rows,
            int64_t heads, int64_t dim, float direction);
void rotate(BFloat16* rows_begin, int64_t stride, const float* cosine, const float* sine,
            int64_t rows, int64_t heads, int64_t dim, float direction);

// y = silu(gate) * up; a row of gate_up is gate then up, width each.
void swiglu(const float* gate_up, float* y, int64_t rows, int64_t width);
void swiglu(const BFloat16* gate_up, BFloat16* y, int64_t rows, int64_t width);

// gate_up becomes its own gradient; y is computed anew beside it, as the next product needs it.
void swiglu_backward(const float* dy, float* gate_up, float* y, int64_t rows, int64_t width);
void swiglu_backward(const BFloat16* dy, BFloat16* gate_up, BFloat16* y, int64_t rows,
                     int64_t width);

// Sum over the rows of the cross entropy against labels (negative: row does not count). The logits
// become the gradient of that sum when `gradient` is set.
double cross_entropy(float* logits, const int64_t* labels, int64_t rows, int64_t width,
                     bool gradient);
double cross_entropy(BFloat16* logits, const int64_t* labels, int64_t rows, int64_t width,
                     bool gradient);

// Elements begin to end of sum = (accumulate: sum +) the `count` parts, added in their order.
void sum_parts(const float* const* parts, int64_t count, int64_t begin, int64_t end, float* sum,
               bool accumulate);
void sum_parts(const BFloat16* const* parts, int64_t count, int64_t begin, int64_t end, float* sum,
               bool accumulate);

// One step of AdamW. The gradient is multiplied with gradient_scale first.
struct AdamWStep {
  float gradient_scale;
  float learning_rate;
  float beta1, beta2, epsilon;
  float weight_decay;
  float correction1, correction2; // 1 - beta^step
};
// parameters: where the master weights' bf16 copy goes, or nullptr.
void adamw(float* master, const float* gradient, float* average, float* square,
           BFloat16* parameters, int64_t size, const AdamWStep& step);

// Sum of squares, in fp64 over short sums in fp32.
double squared_norm(const float* values, int64_t size);

} // namespace dist_train::cpu
