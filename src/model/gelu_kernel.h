// The arithmetic of GELU (tanh form) over flat ranges, without tensors.
// Hendrycks and Gimpel, "Gaussian Error Linear Units" (2016): 0.5 x (1 + tanh(u)) = x / (1 +
// exp(-2u)), u = sqrt(2 / pi) (x + 0.044715 x^3). One exponential in place of a tanh; within 4e-7
// of the exact value, relative to |x|.
#pragma once

#include <cstddef>

namespace tutti::model {

/// y[i] = gelu(x[i]).
void gelu_forward(const float* x, float* y, std::size_t count);
void gelu_forward(const double* x, double* y, std::size_t count);

/// gx[i] = gy[i] gelu'(x[i]).
void gelu_backward(const float* x, const float* gy, float* gx, std::size_t count);
void gelu_backward(const double* x, const double* gy, double* gx, std::size_t count);

}  // namespace tutti::model
