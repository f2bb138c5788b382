// What a layout needs of the model's sizes.
#include <numeric>

#include "spec/memory.h"

namespace tutti::spec {
namespace {

std::string divisors(std::int64_t of) {
  std::string text;
  for (std::int64_t d = 1; d <= of && d <= 4096; ++d) {
    if (of % d == 0) text += (text.empty() ? "" : ", ") + std::to_string(d);
  }
  return text;
}

}  // namespace

std::vector<core::Problem> check_layout(const DecoderSizes& sizes, const MemoryLayout& layout) {
  std::vector<core::Problem> problems;
  const auto divides = [&](const char* axis, std::int64_t size, const char* name, Count of,
                           const char* reason) {
    if (of.value() < 1 || of.value() % size == 0) return;
    problems.push_back(
        {fmt::format("[parallel] {} = {} does not divide {} = {}: {}. Set {} to one of {}.", axis,
                     size, name, of.value(), reason, axis, divisors(of.value()))});
  };
  divides("tp", layout.tp, "[model] heads", sizes.heads, "each rank needs whole heads");
  divides("tp", layout.tp, "[model] kv_heads", sizes.kv_heads,
          "each rank needs whole key and value heads");
  divides("tp", layout.tp, "[model] ffn", sizes.ffn, "each rank holds equal columns");
  if (sizes.vocab.value() > 0 && sizes.vocab.value() < layout.tp) {
    problems.push_back({fmt::format(
        "[parallel] tp = {} is more than [model] vocab = {}: each rank holds a part of the "
        "vocabulary. Set tp to at most {}.",
        layout.tp, sizes.vocab.value(), sizes.vocab.value())});
  }
  divides("cp", layout.cp, "[data] sequence", layout.sequence, "each rank holds equal tokens");
  divides("ep", layout.ep, "[model] experts", sizes.experts, "each rank needs whole experts");
  if (layout.ep > 1 && sizes.experts == 0) {
    problems.push_back({fmt::format(
        "[parallel] ep = {} needs a mixture of experts: this model has none. Set ep = 1.",
        layout.ep)});
  }
  if (layout.dp * layout.cp % layout.ep != 0) {
    problems.push_back(
        {fmt::format("[parallel] ep = {} does not divide dp x cp = {}: experts are dealt out "
                     "inside them. Set ep "
                     "to one of {}.",
                     layout.ep, layout.dp * layout.cp, divisors(layout.dp * layout.cp))});
  }
  const std::int64_t replicas = layout.dp * layout.cp;
  if (layout.zero_shard > 0 && replicas % layout.zero_shard != 0) {
    problems.push_back(
        {fmt::format("[parallel] zero_shard = {} does not divide dp x cp = {}: shard groups are "
                     "equal. Set it to "
                     "one of {}, or 0 for all.",
                     layout.zero_shard, replicas, divisors(replicas))});
  }
  if (layout.zero_shard > 0 && layout.zero == 0) {
    problems.push_back({fmt::format(
        "[parallel] zero_shard = {} with zero = 0: there is nothing that a shard group could share "
        "out. Set zero to 1, 2 or 3, or zero_shard to 0.",
        layout.zero_shard)});
  }
  if (layout.pp * layout.chunks > sizes.layers.value() + 2) {
    problems.push_back({fmt::format(
        "[parallel] pp x chunks = {} x {} is more than [model] layers = {}: a position of the "
        "pipeline needs a layer. Set pp x chunks to at most {}.",
        layout.pp, layout.chunks, sizes.layers.value(), sizes.layers.value())});
  }
  return problems;
}

}  // namespace tutti::spec
