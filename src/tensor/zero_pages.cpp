// core::map_private as a tensor.
#include "tensor/zero_pages.h"

#include <sys/mman.h>

#include "core/pages.h"

namespace tutti::tensor {

at::Tensor zero_pages(std::int64_t elements, at::ScalarType type) {
  if (elements == 0) return at::empty({0}, type);
  const std::size_t bytes = static_cast<std::size_t>(elements) * c10::elementSize(type);
  const std::size_t whole = core::round_up(bytes, core::kHugePage);
  std::byte* const pages = core::map_private(bytes);
  // Not by the first step: what another process has just given back is at hand now, while a host of
  // virtual machines takes free memory away within seconds.
  core::make_pages(pages, bytes);
  return at::from_blob(
      pages, {elements}, [whole](void* data) { ::munmap(data, whole); }, type);
}

}  // namespace tutti::tensor
