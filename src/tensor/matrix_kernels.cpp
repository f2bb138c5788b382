// oneMKL asks mkl_serv_intel_cpu_true() before its first product; a program's own definition is
// found before libtorch_cpu's. With "true" it goes on to ask CPUID for AVX2 or AVX-512 and picks
// accordingly.
#include "tensor/matrix_kernels.h"

namespace tutti::tensor {

bool use_processor_matrix_kernels() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#else
  return false;
#endif
}

}  // namespace tutti::tensor

extern "C" [[gnu::visibility("default"), gnu::used]] int mkl_serv_intel_cpu_true() {
  return tutti::tensor::use_processor_matrix_kernels() ? 1 : 0;
}
