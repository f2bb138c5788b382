// Tensors checked and handed to the engine.
#include "backend/group.h"

#include <memory>
#include <numeric>
#include <stdexcept>

#include "backend/local_stats.h"
#include "core/error.h"

namespace tutti::backend {
namespace {

comm::DType dtype_of(const at::Tensor& tensor, Label label) {
  switch (tensor.scalar_type()) {
    case at::kFloat:
      return comm::DType::Float32;
    case at::kDouble:
      return comm::DType::Float64;
    case at::kBFloat16:
      return comm::DType::BFloat16;
    case at::kInt:
      return comm::DType::Int32;
    case at::kLong:
      return comm::DType::Int64;
    default:
      throw std::invalid_argument(
          fmt::format("{}: tensors of type {} are not communicated: use float, double, "
                      "bfloat16, int or long",
                      label.text, c10::toString(tensor.scalar_type())));
  }
}

comm::Buffer buffer_of(const at::Tensor& tensor, Label label) {
  if (!tensor.defined() || !tensor.is_contiguous() || !tensor.device().is_cpu()) {
    throw std::invalid_argument(fmt::format(
        "{}: only contiguous CPU tensors are communicated: call contiguous() first", label.text));
  }
  return {tensor.data_ptr(), static_cast<std::size_t>(tensor.numel()), dtype_of(tensor, label)};
}

void copy_if_separate(const at::Tensor& to, const at::Tensor& from) {
  if (to.data_ptr() != from.data_ptr()) to.copy_(from);
}

}  // namespace

at::Tensor Group::allocate(at::IntArrayRef shape, at::ScalarType type, Label) const {
  const auto elements =
      std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
  const auto bytes = static_cast<std::size_t>(elements) * c10::elementSize(type);
  std::shared_ptr<std::byte> memory = comm_.allocate(bytes);
  at::Tensor tensor = at::from_blob(
      memory.get(), shape, [memory](void*) {}, at::TensorOptions(type));
  return tensor.zero_();
}

Pending Group::all_reduce(const at::Tensor& io, ReduceOp op, Label label, ReduceStats* stats) {
  if (size() > 1 && !dry_) return comm_.all_reduce(buffer_of(io, label), op, label, stats);
  if (stats != nullptr) fill_local_stats(io, 0, io.numel(), *stats);
  return {};
}

Pending Group::reduce_scatter(const at::Tensor& out, const at::Tensor& in,
                              std::span<const std::int64_t> counts, ReduceOp op, Label label,
                              ReduceStats* stats) {
  if (size() > 1 && !dry_)
    return comm_.reduce_scatter(buffer_of(out, label), buffer_of(in, label), counts, op, label,
                                stats);
  const std::int64_t first =
      std::accumulate(counts.begin(), counts.begin() + rank(), std::int64_t{0});
  const at::Tensor part = in.view(-1).narrow(0, first, counts[rank()]);
  copy_if_separate(out, part.view_as(out));
  if (stats != nullptr) fill_local_stats(in, first, first + counts[rank()], *stats);
  return {};
}

Pending Group::all_gather(const at::Tensor& out, const at::Tensor& in,
                          std::span<const std::int64_t> counts, Label label) {
  if (size() > 1 && !dry_)
    return comm_.all_gather(buffer_of(out, label), buffer_of(in, label), counts, label);
  const std::int64_t first =
      std::accumulate(counts.begin(), counts.begin() + rank(), std::int64_t{0});
  copy_if_separate(out.view(-1).narrow(0, first, counts[rank()]), in.view(-1));
  return {};
}

Pending Group::broadcast(const at::Tensor& io, int root, Label label) {
  if (size() == 1 || dry_) return {};
  return comm_.broadcast(buffer_of(io, label), root, label);
}

Pending Group::send(const at::Tensor& data, int peer, int tag, Label label) {
  return comm_.send(buffer_of(data, label), peer, tag, label);
}

Pending Group::recv(const at::Tensor& data, int peer, int tag, Label label) {
  return comm_.recv(buffer_of(data, label), peer, tag, label);
}

}  // namespace tutti::backend
