// Which kernels oneMKL, inside LibTorch, takes for matrix products.
#pragma once

namespace tutti::tensor {

/// Lets oneMKL choose its kernels by what the processor can do, on processors of every maker.
/// Without it a Zen core gets the kernels of a generic path: 1.1 to 1.7 times slower at the shapes
/// of a GPT (docs/design/0005). Takes effect by being linked in; the call keeps the linker from
/// dropping it. Returns whether the processor has what those kernels need (AVX2 and FMA).
bool use_processor_matrix_kernels();

}  // namespace tutti::tensor
