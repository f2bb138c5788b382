// Products in every type against fp64, whatever way the operands lie.
#include "tensor/products.h"

#include <gtest/gtest.h>

#include <stdexcept>

namespace tutti::tensor {
namespace {

// Elements n / 8 with |n| < 64 are bf16 numbers, and fp32 adds up their products exactly.
at::Tensor eighths(at::IntArrayRef shape, at::ScalarType type) {
  return at::randint(-63, 64, shape, at::kDouble).div(8).to(type);
}

struct Shape {
  std::int64_t m, k, n;
};

class Products : public ::testing::TestWithParam<at::ScalarType> {
 protected:
  void SetUp() override { at::manual_seed(1); }
};

TEST_P(Products, AreExactWhereNothingNeedsRounding) {
  for (const Shape& shape : {Shape{1, 1, 1}, {3, 5, 7}, {1, 70, 1}, {33, 1, 130}, {64, 96, 48}}) {
    for (const bool a_transposed : {false, true}) {
      for (const bool b_transposed : {false, true}) {
        const at::Tensor a = a_transposed ? eighths({shape.k, shape.m}, GetParam()).t()
                                          : eighths({shape.m, shape.k}, GetParam());
        const at::Tensor b = b_transposed ? eighths({shape.n, shape.k}, GetParam()).t()
                                          : eighths({shape.k, shape.n}, GetParam());
        const at::Tensor expected = at::mm(a.to(at::kDouble), b.to(at::kDouble));
        const at::Tensor sums =
            at::full({shape.m, shape.n}, 1e30, at::TensorOptions(wide_type(GetParam())));
        product_into(sums, a, b);
        EXPECT_TRUE(at::equal(sums.to(at::kDouble), expected));
        product_into(sums, a, b, /*add=*/true);
        EXPECT_TRUE(at::equal(sums.to(at::kDouble), expected * 2));
        EXPECT_TRUE(at::equal(product(a, b), expected.to(GetParam())));
      }
    }
  }
}

TEST_P(Products, TakeViewsAndEmptySums) {
  const at::Tensor a = eighths({6, 20}, GetParam()), b = eighths({20, 8}, GetParam());
  const at::Tensor expected = at::mm(a.to(at::kDouble), b.to(at::kDouble));
  const at::Tensor strided = a.slice(1, 0, 20, 2);  // neither dim is dense
  const at::Tensor of_strided = at::mm(strided.to(at::kDouble), b.slice(0, 0, 10).to(at::kDouble));
  EXPECT_TRUE(at::equal(product(strided, b.slice(0, 0, 10)), of_strided.to(GetParam())));
  const at::Tensor wide = at::zeros({6, 30}, at::TensorOptions(wide_type(GetParam())));
  product_into(wide.narrow(1, 5, 8), a, b);  // columns of a larger matrix
  EXPECT_TRUE(at::equal(wide.narrow(1, 5, 8).to(at::kDouble), expected));
  EXPECT_EQ(wide.sum().item<double>(), expected.sum().item<double>());
  // Columns of `out` lie apart: none for oneMKL, so bf16 operands are widened.
  const at::Tensor turned = at::zeros({8, 6}, at::TensorOptions(wide_type(GetParam()))).t();
  product_into(turned, a, b);
  product_into(turned, a, b, /*add=*/true);
  EXPECT_TRUE(at::equal(turned.to(at::kDouble), expected * 2));
  EXPECT_TRUE(at::equal(product(a.narrow(1, 0, 0), b.narrow(0, 0, 0)),
                        at::zeros({6, 8}, at::TensorOptions(GetParam()))));
  EXPECT_EQ(product(a.narrow(0, 0, 0), b).size(0), 0);
}

INSTANTIATE_TEST_SUITE_P(Types, Products,
                         ::testing::Values(at::kDouble, at::kFloat, at::kBFloat16));

// Each side of an operand beyond the size of a piece.
TEST(HalfProducts, OfLargeOperandsAreThoseOfTheirPieces) {
  constexpr std::int64_t kLong = 5'000, kWide = 900;
  for (const Shape& shape :
       {Shape{kLong, kWide, 3}, {kWide, kLong, 2}, {3, kLong, kWide}, {2, kWide, kLong}}) {
    const at::Tensor a = eighths({shape.m, shape.k}, at::kBFloat16);
    const at::Tensor b = eighths({shape.n, shape.k}, at::kBFloat16).t();
    const at::Tensor expected = at::mm(a.to(at::kDouble), b.to(at::kDouble));
    const at::Tensor sums = at::full({shape.m, shape.n}, 1e30F);
    product_into(sums, a, b);
    EXPECT_TRUE(at::equal(sums.to(at::kDouble), expected));
    product_into(sums, a, b, /*add=*/true);
    EXPECT_TRUE(at::equal(sums.to(at::kDouble), expected * 2));
  }
}

// 4,096 products of 1: in bf16 the sum would stand still at 256.
TEST(HalfProducts, AreAddedUpInFp32AndRoundedOnce) {
  const at::Tensor ones = at::ones({1, 4097}, at::kBFloat16);
  EXPECT_EQ(product(ones, ones.t()).item<float>(), 4096);
  const at::Tensor sum = at::empty({1, 1}, at::kFloat);
  product_into(sum, ones, ones.t());
  EXPECT_EQ(sum.item<float>(), 4097);
}

TEST(ProductsThatDoNotExist, AreRefused) {
  const at::Tensor a = at::ones({2, 3}), b = at::ones({3, 4}), half = b.to(at::kBFloat16);
  EXPECT_THROW(product_into(at::ones({2, 3}), a, b), std::invalid_argument);
  EXPECT_THROW(product_into(at::ones({2, 4}), b, a), std::invalid_argument);
  EXPECT_THROW(product_into(at::ones({2, 4}), a, half), std::invalid_argument);
  EXPECT_THROW(product_into(at::ones({2, 4}, at::kBFloat16), a, b), std::invalid_argument);
  EXPECT_THROW(
      product_into(at::ones({2, 4}, at::kBFloat16), a.to(at::kBFloat16), half, /*add=*/true),
      std::invalid_argument);
}

}  // namespace
}  // namespace tutti::tensor
