// core::map_private as a tensor.
#include "tensor/zero_pages.h"

#include <sys/mman.h>

#include "core/pages.h"

namespace tutti::tensor {

at::Tensor zero_pages(std::int64_t elements, at::ScalarType type) {
  if (elements == 0) return at::empty({0}, type);
  const std::size_t bytes = static_cast<std::size_t>(elements) * c10::elementSize(type);
  const std::size_t whole = (bytes + core::kHugePage - 1) / core::kHugePage * core::kHugePage;
  return at::from_blob(
      core::map_private(bytes), {elements}, [whole](void* data) { ::munmap(data, whole); }, type);
}

}  // namespace tutti::tensor
