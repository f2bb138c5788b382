// Process-wide settings of LibTorch.
#include "tensor/runtime.h"

#include <torch/version.h>

#include <stdexcept>

#include "core/error.h"
#include "tensor/caching_allocator.h"
#include "tensor/loading_heap.h"
#include "tensor/matrix_kernels.h"

namespace tutti::tensor {

void set_up_runtime(int threads) {
  use_processor_matrix_kernels();
  loading_heap_bytes();  // links it in
  install_caching_allocator();
  at::set_num_threads(threads);
  at::set_num_interop_threads(1);
}

at::ScalarType scalar_type(const std::string& precision) {
  if (precision == "fp32") return at::kFloat;
  if (precision == "fp64") return at::kDouble;
  if (precision == "bf16") return at::kBFloat16;
  throw std::invalid_argument("no type for precision " + precision);
}

std::string torch_version() { return TORCH_VERSION; }

std::span<std::byte> bytes_of(const at::Tensor& tensor) {
  TUTTI_CHECK(tensor.is_contiguous(), "bytes of a strided tensor");
  return {static_cast<std::byte*>(tensor.data_ptr()), tensor.nbytes()};
}

}  // namespace tutti::tensor
