// Tensors checked and handed to the engine.
#include "backend/group.h"

#include <memory>
#include <numeric>
#include <stdexcept>

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
    case at::kHalf:
      return comm::DType::Float16;
    case at::kChar:
      return comm::DType::Int8;
    case at::kShort:
      return comm::DType::Int16;
    case at::kByte:
      return comm::DType::UInt8;
    case at::kBool:
      return comm::DType::Bool;
    default:
      throw std::invalid_argument(fmt::format(
          "{}: tensors of type {} are not communicated: use float, double, bfloat16, half, char, "
          "short, int, long, byte or bool",
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

std::size_t bytes_of(at::IntArrayRef shape, at::ScalarType type) {
  const auto elements =
      std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
  return static_cast<std::size_t>(elements) * c10::elementSize(type);
}

at::Tensor wrap(const std::shared_ptr<std::byte>& memory, at::IntArrayRef shape,
                at::ScalarType type) {
  return at::from_blob(
      memory.get(), shape, [memory](void*) {}, at::TensorOptions(type));
}

}  // namespace

at::Tensor Group::allocate(at::IntArrayRef shape, at::ScalarType type) const {
  return wrap(comm_.allocate(bytes_of(shape, type)), shape, type);
}

at::Tensor Group::allocate_shared(at::IntArrayRef shape, at::ScalarType type, Label label) {
  const auto memory = comm_.allocate_shared(bytes_of(shape, type), label);
  return memory == nullptr ? at::Tensor() : wrap(memory, shape, type);
}

Pending Group::all_reduce(const at::Tensor& io, Reduce op, Label label, ReduceStats* stats) {
  return comm_.all_reduce(buffer_of(io, label), op, label, stats);
}

Pending Group::reduce(const at::Tensor& io, Reduce op, int root, Label label) {
  return comm_.reduce(buffer_of(io, label), op, root, label);
}

Pending Group::reduce_scatter(const at::Tensor& out, const at::Tensor& in,
                              std::span<const std::int64_t> counts, Reduce op, Label label,
                              ReduceStats* stats) {
  return comm_.reduce_scatter(buffer_of(out, label), buffer_of(in, label), counts, op, label,
                              stats);
}

Pending Group::all_gather(const at::Tensor& out, const at::Tensor& in,
                          std::span<const std::int64_t> counts, Label label) {
  return comm_.all_gather(buffer_of(out, label), buffer_of(in, label), counts, label);
}

Pending Group::broadcast(const at::Tensor& io, int root, Label label) {
  return comm_.broadcast(buffer_of(io, label), root, label);
}

Pending Group::scatter(const at::Tensor& out, const at::Tensor& in,
                       std::span<const std::int64_t> counts, int root, Label label) {
  return comm_.scatter(buffer_of(out, label), buffer_of(in, label), counts, root, label);
}

Pending Group::gather(const at::Tensor& out, const at::Tensor& in,
                      std::span<const std::int64_t> counts, int root, Label label) {
  return comm_.gather(buffer_of(out, label), buffer_of(in, label), counts, root, label);
}

Pending Group::all_to_all(const at::Tensor& out, const at::Tensor& in,
                          std::span<const std::int64_t> send_counts,
                          std::span<const std::int64_t> recv_counts, Label label) {
  return comm_.all_to_all(buffer_of(out, label), buffer_of(in, label), send_counts, recv_counts,
                          label);
}

Pending Group::send(const at::Tensor& data, int peer, int tag, Label label) {
  return comm_.send(buffer_of(data, label), peer, tag, label);
}

Pending Group::recv(const at::Tensor& data, int peer, int tag, Label label) {
  return comm_.recv(buffer_of(data, label), peer, tag, label);
}

}  // namespace tutti::backend
