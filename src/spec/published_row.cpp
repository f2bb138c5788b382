// Cells to sizes. Every rule here is about a column's value and is stated in docs/design.
#include "spec/published_row.h"

#include <charconv>

#include "core/error.h"

namespace tutti::spec {
namespace {

double parsed(const std::string& column, const std::string& cell) {
  double value = 0;
  const auto [end, error] = std::from_chars(cell.data(), cell.data() + cell.size(), value);
  if (error != std::errc() || end != cell.data() + cell.size() || !(value >= 0)) {
    throw SkipRow(fmt::format("{} = \"{}\" is no number of at least 0", column, cell));
  }
  return value;
}

std::int64_t parsed_whole(const std::string& column, const std::string& cell) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(cell.data(), cell.data() + cell.size(), value);
  if (error != std::errc() || end != cell.data() + cell.size() || value < 1) {
    throw SkipRow(fmt::format("{} = \"{}\" is no whole number of at least 1", column, cell));
  }
  return value;
}

// Fused attention never holds the score matrix; without it the matrix grows with the square of the
// sequence, and beyond this length nobody keeps it.
constexpr std::int64_t kLongestUnfused = 2048;
constexpr std::int64_t kUsualHead = 128;
constexpr std::int64_t kSmallestHead = 64;
constexpr std::int64_t kGpt2Vocab = 50257;

Recompute recompute_of_row(RowReader& row, int zero) {
  const std::string name = row.text_or("recompute", "none");
  if (name == "none") return Recompute::None;
  if (name == "full") return Recompute::Full;
  if (name != "selective") {
    throw SkipRow(fmt::format("recompute = \"{}\" is none of none, selective, full", name));
  }
  // Trainers that shard everything recompute by a list of operators; others the attention core.
  if (zero < 3) return Recompute::Core;
  row.assume("recompute = selective with zero_stage = 3",
             "all but every second matrix product and attention");
  return Recompute::List;
}

bool sequence_parallel_of_row(RowReader& row, const MemoryLayout& layout, bool matters) {
  const std::string cell = row.text("sequence_parallel");
  if (cell == "0" || cell == "1") return cell == "1";
  if (!cell.empty()) {
    throw SkipRow(fmt::format("sequence_parallel = \"{}\" is neither 0 nor 1", cell));
  }
  if (layout.tp == 1) return false;
  if (layout.zero >= 3) {
    row.assume("sequence_parallel with zero_stage = 3 and tp > 1", "1");
    return true;
  }
  if (!matters) return false;
  throw SkipRow(
      fmt::format("sequence_parallel is empty with tp = {}: the activations of norms and residuals "
                  "may be whole or 1/{}",
                  layout.tp, layout.tp));
}

void read_experts(RowReader& row, DecoderSizes& sizes, const std::string& needs) {
  sizes.experts = row.whole("n_experts", needs);
  sizes.top_k = row.whole("top_k", needs);
  sizes.expert_ffn = row.whole("moe_ffn_hidden", needs);
  if (!row.has("ffn_hidden")) return;  // no layer has a dense width
  sizes.dense_layers = 1;
  sizes.shared_experts = 1;
  row.assume("dense layers of a mixture with ffn_hidden", "the first one, and one shared expert");
}

}  // namespace

double RowReader::number(const std::string& column, const std::string& why) const {
  const std::string cell = row_.text(column);
  if (cell.empty()) throw SkipRow(fmt::format("{} is empty: {}", column, why));
  return parsed(column, cell);
}

std::int64_t RowReader::whole(const std::string& column, const std::string& why) const {
  const std::string cell = row_.text(column);
  if (cell.empty()) throw SkipRow(fmt::format("{} is empty: {}", column, why));
  return parsed_whole(column, cell);
}

std::int64_t RowReader::whole_or(const std::string& column, std::int64_t fallback) {
  const std::string cell = row_.text(column);
  if (!cell.empty()) return parsed_whole(column, cell);
  assume(column, fmt::format("{}", fallback));
  return fallback;
}

std::string RowReader::text_or(const std::string& column, const std::string& fallback) {
  const std::string cell = row_.text(column);
  if (!cell.empty()) return cell;
  assume(column, fallback);
  return fallback;
}

DecoderSizes sizes_of_row(RowReader& row, const std::string& needs) {
  DecoderSizes sizes;
  sizes.layers = row.whole("layers", needs);
  sizes.hidden = row.whole("hidden", needs);
  const std::string gated = row.text_or("gated_mlp", "0");
  if (gated != "0" && gated != "1") {
    throw SkipRow(fmt::format("gated_mlp = \"{}\" is neither 0 nor 1", gated));
  }
  sizes.gated = gated == "1";
  sizes.tied = !sizes.gated;
  if (row.has("heads")) {
    sizes.heads = row.whole("heads", needs);
  } else {
    sizes.heads = std::max<std::int64_t>(1, sizes.hidden.value() / kUsualHead);
    row.assume("heads", "hidden / 128");
  }
  const bool experts = row.has("n_experts");
  sizes.kv_heads = sizes.heads;
  if (row.has("kv_heads")) {
    sizes.kv_heads = row.whole("kv_heads", needs);
  } else if (experts && sizes.hidden.value() / sizes.heads.value() < kSmallestHead) {
    // Heads this narrow are not columns of the hidden vector.
    sizes.latent = true;
    row.assume("kv_heads of a mixture with heads narrower than 64", "latent attention");
  } else {
    row.assume("kv_heads", "heads");
  }
  if (row.has("ffn_hidden")) {
    sizes.ffn = row.whole("ffn_hidden", needs);
  } else if (!experts) {
    sizes.ffn = 4 * sizes.hidden;
    row.assume("ffn_hidden", "4 x hidden");
  }
  sizes.vocab = row.whole_or("vocab", kGpt2Vocab);
  if (experts) read_experts(row, sizes, needs);
  return sizes;
}

MemoryLayout layout_of_row(RowReader& row, const DecoderSizes& sizes, bool with_activations) {
  MemoryLayout layout;
  layout.tp = row.whole_or("tp", 1);
  layout.pp = row.whole_or("pp", 1);
  layout.dp = row.whole_or("dp", 1);
  layout.cp = row.whole_or("cp", 1);
  layout.ep = row.whole_or("ep", 1);
  layout.chunks = row.whole_or("vpp", 1);
  const double zero = row.has("zero_stage") ? row.number("zero_stage", "") : 0;
  if (!row.has("zero_stage")) row.assume("zero_stage", "0");
  if (zero != 0 && zero != 1 && zero != 2 && zero != 3) {
    throw SkipRow(fmt::format("zero_stage = {} is none of 0, 1, 2, 3", zero));
  }
  layout.zero = static_cast<int>(zero);
  layout.recompute = recompute_of_row(row, layout.zero);
  layout.sequence_parallel = sequence_parallel_of_row(row, layout, with_activations);
  if (!with_activations) return layout;
  layout.micro = row.whole("micro_batch", "activations are a multiple of it");
  layout.sequence = row.whole("seq", "activations are a multiple of it");
  if (sizes.layers < layout.pp * layout.chunks - 2) {
    throw SkipRow(fmt::format("pp x vpp = {} x {} is more than layers = {}", layout.pp,
                              layout.chunks, sizes.layers.value()));
  }
  static const std::map<std::string, std::string_view> kOrders = {
      {"none", "none"},   {"1f1b", "1f1b"},   {"interleaved", "interleaved"},
      {"gpipe", "gpipe"}, {"zb-1p", "zb-1p"}, {"zb-2p", "zb-2p"},
      {"zb-v", "zb-v"},   {"zb-h1", "zb-h1"}, {"zb-h2", "zb-h2"}};
  const std::string name = row.text_or("schedule", layout.pp > 1 ? "1f1b" : "none");
  const auto order = kOrders.find(name);
  if (order == kOrders.end()) throw SkipRow(fmt::format("schedule = \"{}\" is not known", name));
  layout.schedule = order->second;
  if (row.has("global_batch")) {
    layout.microbatches =
        std::max<std::int64_t>(1, row.whole("global_batch", "") / (layout.dp * layout.micro));
  } else {
    layout.microbatches = 2 * layout.pp * layout.chunks;
    row.assume("global_batch", "enough micro-batches to fill the pipeline twice");
  }
  return layout;
}

Runtime runtime_of_row(RowReader& row, const DecoderSizes& sizes, const MemoryLayout& layout) {
  Runtime runtime;
  const std::string precision = row.text("precision");
  if (layout.zero >= 3) {  // fp32 shards, gathered in 16 bits, loss without fused kernels
    runtime.widths = {.weight = 4, .gradient = 4, .gradient_copy = 0, .optimizer = 8};
    runtime.logit_bytes = 12;  // 16-bit logits and gradient, fp32 logits and gradient
  } else if (precision.empty()) {
    runtime.widths = {.weight = 2, .gradient = 2, .gradient_copy = 0, .optimizer = 12};
    row.assume("precision", "16 bit, 16 bytes per parameter");
  } else if (precision == "fp16") {  // the optimizer holds an fp32 copy of the gradients
    runtime.widths = {.weight = 2, .gradient = 2, .gradient_copy = 0, .optimizer = 16};
  } else if (precision == "fp32") {
    runtime.widths = {.weight = 4, .gradient = 4, .gradient_copy = 0, .optimizer = 8};
    runtime.compute_bytes = 4;
    runtime.logit_bytes = 8;
  } else {
    // Sums in fp32. The kernel that adds a weight gradient straight into them came together with
    // sequence parallelism; without it the 16-bit gradients stay beside their sums.
    const bool fused_sum = layout.tp == 1 || layout.sequence_parallel;
    runtime.widths = {
        .weight = 2, .gradient = 4, .gradient_copy = fused_sum ? 0 : 2, .optimizer = 12};
  }
  runtime.fused_attention = layout.sequence.value() > kLongestUnfused;
  row.assume("attention", "fused where seq > 2048");
  runtime.dropout = !sizes.gated;
  row.assume("dropout", "masks are kept where gated_mlp = 0");
  runtime.kept_for_weights = kept_by_searched_orders();
  return runtime;
}

}  // namespace tutti::spec
