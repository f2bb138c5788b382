// The thread that has the next step's tokens ready when the step asks for them.
#pragma once

#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <stop_token>
#include <thread>
#include <vector>

#include "core/thread.h"
#include "core/trace.h"
#include "data/batch.h"
#include "data/sampler.h"

namespace tutti::data {

struct LoaderOptions {
  std::uint64_t seed = 1;
  BatchShape shape;
  int rank = 0;                    // data-parallel rank, 0 .. shape.dp - 1
  std::uint64_t first_sample = 0;  // global sample counter at which the run begins or resumes
  int epochs = 0;                  // 0: never ends
};

/// What one rank computes in one optimizer step.
struct StepBatch {
  std::uint64_t first_sample =
      0;  // global sample counter at the beginning of the step; behind it: + shape.global
  std::vector<MicroBatch> micro_batches;
  std::int64_t tokens = 0;         // targets of this rank
  std::int64_t global_tokens = 0;  // targets of all ranks: the divisor of the summed loss
};

/// Makes batches ahead, at most two waiting and one in work. next() belongs to one thread. The
/// batches depend on corpus and options only, not on timing.
class Loader {
 public:
  /// Throws std::invalid_argument if shape and rank do not fit or the corpus has no sample.
  /// `trace` (may be null) gets a span per batch on the lane "loader" and must outlive the loader.
  Loader(std::shared_ptr<const Corpus> corpus, const LoaderOptions& options,
         core::Trace* trace = nullptr);
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;
  /// Ends the thread; waits at most for the batch in work.
  ~Loader();

  /// The next step's batch; waits for it. Empty when fewer than shape.global samples are left of
  /// the last epoch: a step is never short. Throws what the thread met (core::RunError for a
  /// damaged file), again on every later call.
  std::optional<StepBatch> next();

 private:
  struct Item {
    StepBatch batch;
    std::exception_ptr error;
  };

  void run(const std::stop_token& stop);
  [[nodiscard]] StepBatch make(std::uint64_t first_sample) const;

  std::shared_ptr<const Corpus> corpus_;
  LoaderOptions options_;
  core::Trace* trace_;
  std::exception_ptr error_;
  core::BoundedQueue<Item> queue_{2};
  std::jthread thread_;  // last: it uses all of the above
};

}  // namespace tutti::data
