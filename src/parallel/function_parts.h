// What our autograd functions have in common. For their .cpp files only.
#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <utility>

#include "parallel/tensor_parallel.h"
#include "parallel/weight_grads.h"
#include "tensor/torch.h"

namespace tutti::parallel {

// Columns or rows worth a thread, in elements of the matrix.
inline std::int64_t grain(std::int64_t other_side) {
  return std::max<std::int64_t>(1, 32768 / std::max<std::int64_t>(1, other_side));
}

inline std::size_t size_of(std::int64_t count) { return static_cast<std::size_t>(count); }

/// The group of a caller that gives none.
inline TensorParallel& or_alone(TensorParallel* tp) {
  static thread_local TensorParallel alone;
  return tp == nullptr ? alone : *tp;
}

// Weights and the group as a Function keeps them: pointers, since they outlive every graph.
inline void keep(torch::autograd::AutogradContext* ctx,
                 std::initializer_list<std::pair<const char*, const Weight*>> weights) {
  for (const auto& [name, weight] : weights) {
    ctx->saved_data[name] = reinterpret_cast<std::int64_t>(weight);
  }
}
inline const Weight& kept(torch::autograd::AutogradContext* ctx, const char* name) {
  return *reinterpret_cast<const Weight*>(ctx->saved_data[name].toInt());
}

inline void keep(torch::autograd::AutogradContext* ctx, TensorParallel* tp) {
  ctx->saved_data["tp"] = reinterpret_cast<std::int64_t>(tp);
}
inline TensorParallel& kept_group(torch::autograd::AutogradContext* ctx) {
  return *reinterpret_cast<TensorParallel*>(ctx->saved_data["tp"].toInt());
}

}  // namespace tutti::parallel
