// Square products of a size that neither caches nor launch costs decide, the fastest of a few.
#include "train/matrix_peak.h"

#include <algorithm>
#include <cstdlib>

#include "core/clock.h"
#include "core/error.h"
#include "core/file.h"
#include "core/json.h"
#include "tensor/products.h"

namespace tutti::train {
namespace {

constexpr std::int64_t kSize = 768;  // 0.9 GFLOP
constexpr int kRepeats = 8;

// One line of the file: everything that the peak depends on.
std::string key_of(const MatrixPeakOptions& options) {
  return fmt::format("{}, {}, {} ranks x {} threads", options.processor,
                     c10::toString(options.type), options.ranks, options.threads);
}

core::Json read(const std::filesystem::path& file) {
  std::error_code ignored;
  if (file.empty() || !std::filesystem::exists(file, ignored)) return core::Json::object();
  const core::Json json = core::Json::parse(core::read_file(file), nullptr, false);
  return json.is_object() ? json : core::Json::object();
}

}  // namespace

std::filesystem::path cache_folder() {
  const char* cache = std::getenv("XDG_CACHE_HOME");
  if (cache != nullptr && *cache != '\0') return std::filesystem::path(cache) / "tutti";
  const char* home = std::getenv("HOME");
  if (home != nullptr && *home != '\0') return std::filesystem::path(home) / ".cache" / "tutti";
  return {};
}

MatrixPeak::MatrixPeak(MatrixPeakOptions options) : options_(std::move(options)) {
  const core::Json known = read(file());
  const auto found = known.find(key_of(options_));
  if (found != known.end() && found->is_number()) flops_ = found->get<double>();
}

double MatrixPeak::flops() {
  if (flops_ == 0) measure();
  return flops_;
}

std::filesystem::path MatrixPeak::file() const {
  return options_.folder.empty() ? std::filesystem::path{} : options_.folder / "matrix-peak.json";
}

void MatrixPeak::measure() {
  const at::NoGradGuard no_grad;
  const at::Tensor a = at::ones({kSize, kSize}, options_.type);
  const at::Tensor b = at::ones({kSize, kSize}, options_.type);
  const at::Tensor c = at::empty({kSize, kSize}, tensor::wide_type(options_.type));
  tensor::product_into(c, a, b);  // wakes threads, packs buffers
  for (int repeat = 0; repeat < kRepeats; ++repeat) {
    const core::Stopwatch watch;
    tensor::product_into(c, a, b);
    const double seconds = watch.elapsed().count();
    if (seconds > 0) flops_ = std::max(flops_, 2.0 * kSize * kSize * kSize / seconds);
  }
  remember();
}

// Nothing depends on the file but the time to measure again: a folder that cannot be written is
// none.
void MatrixPeak::remember() const {
  if (file().empty()) return;
  std::error_code error;
  std::filesystem::create_directories(options_.folder, error);
  if (error) return;
  try {
    core::Json known = read(file());
    known[key_of(options_)] = flops_;
    core::write_file_atomically(file(), known.dump(2));
  } catch (const core::RunError&) {
  }
}

}  // namespace tutti::train
