// The layout-equivalence certificate: do several ranks compute what one rank computes?
//
// Every run leaves a dump, and this compares dumps: DUMP/losses.json (the loss of each step) and
// DUMP/step-K (checkpoint format) with the parameters after step K and "grad/NAME", the global
// gradients of step K. The error of a tensor T is ||T - T64|| / max(||T64||, 1e-6 x rms(all
// gradients) x sqrt(n)), where T64 comes from one rank in fp64; the band is 4 x (error of one rank
// in fp32) + 1e-6. Where layouts run in bf16 it is 8 x (error of one rank in bf16) + 2^-9, one
// rounding. Elementwise relative errors would be useless: the key bias has a gradient that is
// mathematically zero, so any two runs differ there by 100 %.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "core/json.h"

namespace tutti::report {

inline constexpr const char* kLossesFile = "losses.json";
inline constexpr const char* kGradPrefix = "grad/";

/// The dumps that make a certificate.
struct CertificateInput {
  struct Run {
    std::string layout;  // as the user wrote it
    std::filesystem::path dump;
    std::filesystem::path repeat;  // the same run once more
  };
  std::filesystem::path reference64;  // one rank, fp64
  std::filesystem::path single;       // one rank in the precision of the runs
  bool half = false;                  // which is bf16
  std::vector<Run> runs;
  /// AdamW divides by the gradient's own size, so rounding noise becomes steps of +-lr where the
  /// gradient is zero by symmetry: such parameters are then not compared, but listed.
  bool adamw = true;
};

/// The first thing beyond its band: earliest step, then gradients in model order, then parameters,
/// then the loss.
struct Difference {
  std::string tensor;  // "grad/blocks.0.attn.qkv.weight", "blocks.0.attn.qkv.weight" or "loss"
  std::int64_t step = 0;
  double error = 0.0;  // infinite if the tensor is missing or has another shape
  double band = 0.0;
};

/// Errors and band are the largest of all tensors and steps; every error is judged by its own
/// tensor's band.
struct LayoutResult {
  std::string layout;
  double loss_error = 0.0;
  double grad_error = 0.0;
  double param_error = 0.0;
  double band = 0.0;
  bool bitwise_repeat = false;
  std::optional<Difference> first_difference = {};
  /// Of those of the same kind and step the one with the largest error. A fault in the forward pass
  /// spoils every gradient, and those beside it most.
  std::optional<Difference> largest_difference = {};
  [[nodiscard]] bool ok() const { return bitwise_repeat && !first_difference; }
};

struct Certificate {
  std::vector<LayoutResult> layouts;
  /// False for AdamW in bf16: its first steps are +-lr whatever the gradient's size, so one sign
  /// that a rounding decides moves an element by 2 lr, as it does in the reference. What an update
  /// has spoilt shows in the gradients of later steps.
  bool parameters_compared = true;
  std::vector<std::string> zero_gradient_by_symmetry;  // parameters not compared (AdamW)
  [[nodiscard]] bool ok() const;
};

/// Reads the dumps, a tensor at a time. Throws core::RunError or core::ConfigError if a dump is
/// missing or damaged.
Certificate certify(const CertificateInput& input);

/// The document of `tutti verify --json`.
core::Json to_json(const Certificate& certificate);

/// The same for people: a table, and a sentence for each layout that fails.
std::string table(const Certificate& certificate);

}  // namespace tutti::report
