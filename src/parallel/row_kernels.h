// What happens to the rows around a matrix product, one pass over memory each: bias, GELU,
// residual, cross-entropy. No tensors. The same bits on every instruction set: no fused
// multiply-add, sums in a fixed order of lanes. Values are fp64, fp32 or bf16; what bf16 goes into
// is computed in fp32 and rounded once. Shapes: rows x columns, row-major and dense.
#pragma once

#include <c10/util/BFloat16.h>

#include <cstddef>
#include <cstdint>

namespace tutti::parallel {

/// The type in which values of type T are computed and added up.
template <class T>
struct WideOf {
  using type = T;
};
template <>
struct WideOf<c10::BFloat16> {
  using type = float;
};
template <class T>
using Wide = typename WideOf<T>::type;

/// A range of columns of all rows: threads share out columns, so that a column's sum has one order.
struct Columns {
  std::size_t rows, columns;  // of the matrix
  std::size_t begin, end;     // of the range
};

/// y += b, per row.
template <class T>
void add_bias(T* y, const T* b, std::size_t rows, std::size_t columns);

/// y += b + residual.
template <class T>
void add_bias_and_residual(T* y, const T* b, const T* residual, std::size_t rows,
                           std::size_t columns);

/// y = gelu(x + b), with tanh: x sigmoid(2 sqrt(2 / pi) (x + 0.044715 x^3)). Hendrycks and Gimpel,
/// "Gaussian Error Linear Units" (2016); 0.5 (1 + tanh u) is sigmoid(2 u), which takes one
/// exponential.
template <class T>
void bias_gelu(const T* x, const T* b, T* y, std::size_t rows, std::size_t columns);

/// g *= gelu'(x + b); db = or += the sum of g over the rows.
template <class T>
void bias_gelu_backward(const T* x, const T* b, T* g, Wide<T>* db, bool overwrite, Columns range);

/// db = or += the sum of gy over the rows.
template <class T>
void column_sums(const T* gy, Wide<T>* db, bool overwrite, Columns range);

/// Cross-entropy, for fp64 and fp32. In parts, for rows whose columns lie on several ranks: the
/// largest of one row's columns; x = e^(x - largest), returning the sum, and x *= factor.
template <class T>
T largest(const T* x, std::size_t columns);
template <class T>
double exponentials(T* x, std::size_t columns, T largest);
template <class T>
void scale(T* x, std::size_t columns, double factor);

/// The loss -log softmax(logits)[target] of one row, fp64. With `gradient` the logits become
/// scale (softmax - onehot(target)), else they are left in an unspecified state.
template <class T>
double cross_entropy(T* logits, std::size_t columns, std::size_t target, double scale,
                     bool gradient);

}  // namespace tutti::parallel
