// LibTorch's own products for fp32 and fp64. For bf16 oneMKL's, since at::mm gives no fp32 sums on
// a CPU, and without AVX-512 takes ten times as long (docs/design/0011).
#include "tensor/products.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <stdexcept>

// Part of libtorch_cpu where LibTorch was built with oneMKL; elsewhere null. Row-major: layout 101;
// 111 and 112: as it is and transposed.
extern "C" [[gnu::weak]] void cblas_gemm_bf16bf16f32(int layout, int transposed_a, int transposed_b,
                                                     int m, int n, int k, float alpha,
                                                     const std::uint16_t* a, int lda,
                                                     const std::uint16_t* b, int ldb, float beta,
                                                     float* c, int ldc);

namespace tutti::tensor {
namespace {

constexpr int kRowMajor = 101, kAsItIs = 111, kTransposed = 112;

bool is_half(const at::Tensor& x) { return x.scalar_type() == at::kBFloat16; }

// A matrix as a BLAS takes it; `held` keeps its memory.
struct Operand {
  at::Tensor held;
  int transposed;
  std::int64_t stride;
};

Operand operand(const at::Tensor& x) {
  const auto wide_enough = [&](std::int64_t dim, std::int64_t other) {
    return x.stride(other) == 1 && x.stride(dim) >= x.size(other);
  };
  if (wide_enough(0, 1)) return {x, kAsItIs, std::max<std::int64_t>(x.stride(0), 1)};
  if (wide_enough(1, 0)) return {x, kTransposed, std::max<std::int64_t>(x.stride(1), 1)};
  return {x.contiguous(), kAsItIs, std::max<std::int64_t>(x.size(1), 1)};
}

const std::uint16_t* bits(const Operand& x) {
  return reinterpret_cast<const std::uint16_t*>(x.held.const_data_ptr<at::BFloat16>());
}

bool takes(const at::Tensor& out, const Operand& a, const Operand& b) {
  constexpr std::int64_t kMost = std::numeric_limits<int>::max();
  return cblas_gemm_bf16bf16f32 != nullptr && out.stride(1) == 1 && out.stride(0) >= out.size(1) &&
         std::max({a.stride, b.stride, out.stride(0), out.size(0), a.held.size(0), a.held.size(1),
                   b.held.size(0), b.held.size(1)}) <= kMost;
}

void half_product(at::Tensor out_MN, const at::Tensor& a_MK, const at::Tensor& b_KN, bool add);

// Where there are no bf16 instructions both ways widen a whole operand, and oneMKL keeps that
// memory: 200 MB for the head of 124M. So larger operands go in pieces of this many elements.
constexpr std::int64_t kPiece = 1 << 20;

// True if it was done: in pieces along the longer side of the larger operand.
bool product_in_pieces(const at::Tensor& out_MN, const at::Tensor& a_MK, const at::Tensor& b_KN,
                       bool add) {
  const bool of_a = a_MK.numel() >= b_KN.numel();
  const at::Tensor& larger = of_a ? a_MK : b_KN;
  if (larger.numel() <= kPiece) return false;
  const std::int64_t dim = larger.size(0) >= larger.size(1) ? 0 : 1;
  const std::int64_t size = larger.size(dim),
                     step = std::max<std::int64_t>(1, kPiece * size / larger.numel());
  const bool inner = of_a == (dim == 1);  // K: the pieces' products are added up
  for (std::int64_t first = 0; first < size; first += step) {
    const std::int64_t count = std::min(step, size - first);
    if (inner) {
      half_product(out_MN, a_MK.narrow(1, first, count), b_KN.narrow(0, first, count),
                   add || first > 0);
    } else if (of_a) {
      half_product(out_MN.narrow(0, first, count), a_MK.narrow(0, first, count), b_KN, add);
    } else {
      half_product(out_MN.narrow(1, first, count), a_MK, b_KN.narrow(1, first, count), add);
    }
  }
  return true;
}

// out: fp32.
void half_product(at::Tensor out_MN, const at::Tensor& a_MK, const at::Tensor& b_KN, bool add) {
  if (product_in_pieces(out_MN, a_MK, b_KN, add)) return;
  const Operand a = operand(a_MK), b = operand(b_KN);
  if (a_MK.numel() > 0 && b_KN.numel() > 0 && takes(out_MN, a, b)) {
    cblas_gemm_bf16bf16f32(kRowMajor, a.transposed, b.transposed, static_cast<int>(a_MK.size(0)),
                           static_cast<int>(b_KN.size(1)), static_cast<int>(a_MK.size(1)), 1.0F,
                           bits(a), static_cast<int>(a.stride), bits(b), static_cast<int>(b.stride),
                           add ? 1.0F : 0.0F, out_MN.data_ptr<float>(),
                           static_cast<int>(out_MN.stride(0)));
    return;
  }
  at::addmm_out(out_MN, out_MN, a_MK.to(at::kFloat), b_KN.to(at::kFloat), /*beta=*/add ? 1 : 0,
                /*alpha=*/1);
}

[[noreturn]] void throw_mismatch(const at::Tensor& out, const at::Tensor& a, const at::Tensor& b,
                                 bool add) {
  const auto describe = [](const at::Tensor& x) {
    return fmt::format("{} [{}]", c10::toString(x.scalar_type()), fmt::join(x.sizes(), ", "));
  };
  throw std::invalid_argument(fmt::format("{} {} {} x {}: no such product", describe(out),
                                          add ? "+=" : "=", describe(a), describe(b)));
}

}  // namespace

at::ScalarType wide_type(at::ScalarType type) { return type == at::kBFloat16 ? at::kFloat : type; }

void product_into(const at::Tensor& out_MN, const at::Tensor& a_MK, const at::Tensor& b_KN,
                  bool add) {
  const bool matrices = out_MN.dim() == 2 && a_MK.dim() == 2 && b_KN.dim() == 2;
  const bool rounds = is_half(out_MN) && is_half(a_MK) && !add;
  if (!matrices || a_MK.scalar_type() != b_KN.scalar_type() || a_MK.size(1) != b_KN.size(0) ||
      out_MN.size(0) != a_MK.size(0) || out_MN.size(1) != b_KN.size(1) ||
      (out_MN.scalar_type() != wide_type(a_MK.scalar_type()) && !rounds))
    throw_mismatch(out_MN, a_MK, b_KN, add);
  const at::NoGradGuard no_grad;
  at::Tensor out = out_MN;
  if (!is_half(a_MK)) {
    at::addmm_out(out, out, a_MK, b_KN, /*beta=*/add ? 1 : 0, /*alpha=*/1);
  } else if (is_half(out)) {
    const at::Tensor sums_MN = at::empty(out.sizes(), at::kFloat);
    half_product(sums_MN, a_MK, b_KN, false);
    out.copy_(sums_MN);
  } else {
    half_product(out, a_MK, b_KN, add);
  }
}

at::Tensor product(const at::Tensor& a_MK, const at::Tensor& b_KN) {
  const at::Tensor y_MN = at::empty({a_MK.size(0), b_KN.size(1)}, a_MK.options());
  product_into(y_MN, a_MK, b_KN);
  return y_MN;
}

}  // namespace tutti::tensor
