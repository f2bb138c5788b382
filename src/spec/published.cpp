// One function per quantity that published tables give.
#include "spec/published.h"

#include <cmath>

#include "core/error.h"
#include "spec/inflight.h"
#include "spec/published_row.h"

namespace tutti::spec {
namespace {

constexpr double kGiB = 1024.0 * 1024 * 1024;
constexpr double kGB = 1e9;

// Stated constants, the only ones: fitted once on the measured rows (docs/design).
constexpr std::int64_t kWorkspace = 700'000'000;  // of matrix products and collectives, bytes
constexpr std::int64_t kProcess = 6'800'000'000;  // driver, communicators, fixed buckets
constexpr double kUsable = 0.97;                  // of a device, before its allocator gives up
constexpr double kReservedSlack = 0.03;           // reserved by the allocator over allocated

constexpr StateWidths kZeroPaper = {
    .weight = 2, .gradient = 2, .gradient_copy = 0, .optimizer = 12};
constexpr StateWidths kFp32Sums = {.weight = 2, .gradient = 4, .gradient_copy = 0, .optimizer = 12};
constexpr StateWidths kFp16Sums = {.weight = 2, .gradient = 2, .gradient_copy = 0, .optimizer = 16};
constexpr StateWidths kFp32 = {.weight = 4, .gradient = 4, .gradient_copy = 0, .optimizer = 8};

double bytes_per_parameter(const StateWidths& widths, int zero, std::int64_t shards) {
  const auto held = [&](int width, bool sharded) {
    return static_cast<double>(width) / static_cast<double>(sharded ? shards : 1);
  };
  return held(widths.weight, zero >= 3) + held(widths.gradient, zero >= 2) +
         held(widths.optimizer, zero >= 1);
}

double model_states(RowReader& row) {
  const MemoryLayout layout = layout_of_row(row, {}, false);
  const double parameters = row.number("params_b", "model states are a multiple of it") * 1e9;
  return parameters * bytes_per_parameter(kZeroPaper, layout.zero, layout.dp * layout.cp);
}

double states_per_parameter(RowReader& row) {
  const MemoryLayout layout = layout_of_row(row, {}, false);
  const std::string precision = row.text_or("precision", "bf16");
  const StateWidths widths = precision == "fp16"   ? kFp16Sums
                             : precision == "fp32" ? kFp32
                                                   : kFp32Sums;
  return bytes_per_parameter(widths, layout.zero, layout.dp * layout.cp);
}

/// Gigabytes in the name of a device ("A100-80G-SXM"): the number before a G that ends a word.
std::optional<double> device_gigabytes(const std::string& name) {
  for (std::size_t end = name.find('G'); end != std::string::npos; end = name.find('G', end + 1)) {
    std::size_t begin = end;
    while (begin > 0 && std::isdigit(static_cast<unsigned char>(name[begin - 1])) != 0) --begin;
    const bool word = end + 1 == name.size() || name[end + 1] == '-' || name[end + 1] == 'B';
    if (begin < end && word) return std::stod(name.substr(begin, end - begin));
  }
  return std::nullopt;
}

// In billions, as tables print it: a tenth of a billion per device, whole trillions beyond.
double max_model_size(RowReader& row) {
  const auto gigabytes = device_gigabytes(row.text("accelerator"));
  if (!gigabytes) throw SkipRow("accelerator gives no memory size (like A100-80G)");
  if (row.text("kind") != "closed_form") {
    throw SkipRow("a size that ran depends on layers, hidden and seq, which are empty");
  }
  const MemoryLayout layout = layout_of_row(row, {}, false);
  const double billions =
      *gigabytes / bytes_per_parameter(kZeroPaper, layout.zero, layout.dp * layout.cp);
  const double size = std::floor(billions * 10) / 10 * static_cast<double>(layout.tp);
  return size < 1000 ? size : std::round(size / 1000) * 1000;
}

// A row whose figure is of activations, read in the model of its columns.
struct Modelled {
  Graph graph;
  MemoryLayout layout;
  Runtime runtime;
};

Modelled modelled(RowReader& row, const std::string& needs) {
  const DecoderSizes sizes = sizes_of_row(row, needs);
  const MemoryLayout layout = layout_of_row(row, sizes, true);
  return {decoder_graph(sizes), layout, runtime_of_row(row, sizes, layout)};
}

Count layer_bytes(const Modelled& m) {
  return m.graph.blocks.back().activation_bytes(activation_question(m.layout, m.runtime));
}

double percent_of_baseline(const Modelled& m) {
  Modelled baseline = m;
  baseline.layout.sequence_parallel = false;
  baseline.layout.recompute = Recompute::None;
  return 100 * layer_bytes(m).real() / layer_bytes(baseline).real();
}

double first_stage_activations(const Modelled& m) {
  const auto inflight = peak_inflight({.schedule = m.layout.schedule,
                                       .stages = m.layout.pp,
                                       .microbatches = m.layout.microbatches,
                                       .chunks = m.layout.chunks},
                                      0);
  if (!inflight) throw SkipRow("schedule has no closed form for its activations");
  const double layers = m.graph.layers().real() / static_cast<double>(m.layout.pp);
  return layers * layer_bytes(m).real() * *inflight;
}

// The paper counts the matrices of the blocks; each costs two operations per weight and token.
double first_stage_states(RowReader& row) {
  const DecoderSizes sizes = sizes_of_row(row, "parameters are counted from it");
  const MemoryLayout layout = layout_of_row(row, sizes, false);
  const Graph graph = decoder_graph(sizes);
  Count matrices = 0;
  for (const LayerKind& kind : graph.blocks) {
    for (const Operation& operation : kind.operations) {
      matrices += kind.count * (operation.flops_per_token.value() / 2);
    }
  }
  return matrices.real() / static_cast<double>(layout.tp * layout.pp) *
         bytes_per_parameter(kFp32Sums, layout.zero, layout.dp * layout.cp);
}

double whole_rank(RowReader& row, const std::string& quantity) {
  Modelled m = modelled(row, "a rank's memory is counted from it");
  const bool process = quantity == "process_total" || quantity == "fits";
  m.runtime.base_bytes = process ? kProcess : kWorkspace;
  if (process || quantity == "peak_reserved_or_allocated") m.runtime.slack = kReservedSlack;
  const MemoryTerms terms = peak_memory(m.graph, m.layout, m.runtime);
  if (quantity == "allocated_between_steps") {
    return (terms.parameters + terms.gradients + terms.optimizer).real();
  }
  return terms.total().real();
}

double unit_bytes(const std::string& unit) {
  if (unit == "bytes") return 1;
  if (unit == "GiB") return kGiB;
  if (unit == "GB") return kGB;
  throw SkipRow(fmt::format("unit = \"{}\" is none of bytes, GB, GiB", unit));
}

// Where the figure has no unit of bytes, `bytes` is false and the value is the answer.
struct Value {
  double value;
  bool bytes = true;
  bool whole_rank = false;
};

Value value_of(RowReader& row, const std::string& quantity) {
  const std::string layer = "activations are counted from it";
  if (quantity == "model_states") return {model_states(row)};
  if (quantity == "model_states_per_parameter") return {states_per_parameter(row)};
  if (quantity == "max_model_size") return {max_model_size(row), false};
  if (quantity == "params_grads_optimizer_first_stage") return {first_stage_states(row)};
  if (quantity == "activations_per_layer") return {layer_bytes(modelled(row, layer)).real()};
  if (quantity == "activations_first_stage") {
    return {first_stage_activations(modelled(row, layer))};
  }
  if (quantity == "activations_percent_of_tp_baseline") {
    return {percent_of_baseline(modelled(row, layer)), false};
  }
  for (const char* whole : {"peak_allocated", "peak_as_printed", "peak_reserved_or_allocated",
                            "process_total", "allocated_between_steps", "fits"}) {
    if (quantity == whole) return {whole_rank(row, quantity), true, true};
  }
  throw SkipRow(fmt::format("quantity = \"{}\" is not known", quantity));
}

int decimals(const std::string& cell) {
  const std::size_t point = cell.find('.');
  return point == std::string::npos ? 0 : static_cast<int>(cell.size() - point - 1);
}

PublishedRow answer(const core::CsvRow& cells, std::map<std::string, std::string>& assumed) {
  RowReader row(cells, assumed);
  const std::string needed = "a row needs it to be answered";
  PublishedRow result{.id = row.text("id"),
                      .source_key = row.text("source_key"),
                      .kind = row.text("kind"),
                      .quantity = row.text("quantity"),
                      .unit = row.text("unit"),
                      .published = row.number("value", needed)};
  if (result.quantity.empty()) throw SkipRow("quantity is empty: " + needed);
  const Value value = value_of(row, result.quantity);
  const auto gigabytes = device_gigabytes(row.text("accelerator"));
  if (value.whole_rank && gigabytes) result.fits = value.value <= kUsable * *gigabytes * kGiB;
  if (result.quantity == "fits") {
    if (!result.fits) throw SkipRow("accelerator gives no memory size (like A100-80G)");
    result.exact = *result.fits ? 1 : 0;
  } else {
    result.exact = value.bytes ? value.value / unit_bytes(result.unit) : value.value;
  }
  result.predicted = result.exact;
  if (result.kind == "closed_form" || result.kind == "published_formula") {
    const double scale = std::pow(10.0, decimals(row.text("value")));
    result.predicted = std::round(result.exact * scale) / scale;
  }
  if (result.published > 0) {
    result.error = result.predicted / result.published - 1;
  } else {
    result.error = result.predicted == 0 ? 0 : 1;
  }
  return result;
}

}  // namespace

PublishedAnswer answer_memory_rows(std::string_view csv) {
  PublishedAnswer result;
  for (const core::CsvRow& cells : core::read_csv(csv).rows) {
    try {
      std::map<std::string, std::string> assumed = result.assumed;
      result.rows.push_back(answer(cells, assumed));
      result.assumed = std::move(assumed);
    } catch (const SkipRow& why) {
      const std::string id = cells.text("id");
      result.skipped.push_back(
          {id.empty() ? fmt::format("line {}", cells.line()) : id, why.what()});
    } catch (const core::ConfigError& error) {
      result.skipped.push_back({cells.text("id"), error.what()});
    }
  }
  return result;
}

}  // namespace tutti::spec
