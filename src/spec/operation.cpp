// Bytes and operations of one operation.
#include "spec/operation.h"

#include <fmt/format.h>

#include <stdexcept>

namespace tutti::spec {
namespace {

bool exists(Only only, const ActivationQuestion& question) {
  switch (only) {
    case Only::Always:
      return true;
    case Only::Unfused:
      return !question.fused_attention;
    case Only::Fused:
      return question.fused_attention;
    case Only::Dropout:
      return question.dropout;
    case Only::UnfusedDropout:
      return !question.fused_attention && question.dropout;
  }
  return true;
}

bool kept(const Saved& saved, Recompute recompute) {
  switch (recompute) {
    case Recompute::None:
      return !saved.only_list;
    case Recompute::Core:
      return !saved.only_list && !saved.in_core;
    case Recompute::Cheap:
      return !saved.only_list && !saved.cheap;
    case Recompute::List:
      return saved.only_list || saved.listed;
    case Recompute::Full:
      return false;
  }
  return true;
}

int bytes_of(Width width, int compute_bytes) {
  switch (width) {
    case Width::Compute:
      return compute_bytes;
    case Width::Mask:
      return 1;
    case Width::Fp32:
      return 4;
  }
  return compute_bytes;
}

}  // namespace

Recompute recompute_from_name(std::string_view name) {
  if (name == "none") return Recompute::None;
  if (name == "selective") return Recompute::Cheap;
  if (name == "full") return Recompute::Full;
  throw std::invalid_argument(fmt::format("recompute = \"{}\"", name));
}

Count activation_bytes(const Saved& saved, const ActivationQuestion& question) {
  if (!exists(saved.only, question) || !kept(saved, question.recompute)) return 0;
  const Count elements = question.tokens * (saved.per_token + saved.per_pair * question.keys);
  const bool divided = saved.place == Place::Tensor || question.sequence_parallel;
  return share(elements * bytes_of(saved.width, question.compute_bytes), divided ? question.tp : 1);
}

Count activation_bytes(const Operation& operation, const ActivationQuestion& question) {
  Count sum = 0;
  for (const Saved& saved : operation.saved) sum += activation_bytes(saved, question);
  return sum;
}

Flops flops(const Operation& operation, Count tokens, Count keys, Attention attention) {
  Count square = operation.flops_per_pair * tokens * keys;
  if (attention == Attention::CausalHalf) square = square.value() / 2;
  const Count forward = operation.flops_per_token * tokens + square;
  return {forward, forward * operation.backward};
}

}  // namespace tutti::spec
