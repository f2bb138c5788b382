// Prefetching: one thread makes steps in order and waits where the queue is full.
#include "data/loader.h"

#include <stdexcept>
#include <utility>

namespace tutti::data {

Loader::Loader(std::shared_ptr<const Corpus> corpus, const LoaderOptions& options,
               core::Trace* trace)
    : corpus_(std::move(corpus)), options_(options), trace_(trace) {
  if (corpus_->num_samples() == 0) throw std::invalid_argument("a corpus shorter than one sample");
  batch_positions(options_.first_sample, options_.shape, options_.rank,
                  0);  // throws here, not in the thread
  thread_ = core::start_thread("loader", [this](const std::stop_token& stop) { run(stop); });
}

Loader::~Loader() { queue_.close(); }  // wakes the thread, whose own destructor joins it

std::optional<StepBatch> Loader::next() {
  if (error_) std::rethrow_exception(error_);
  std::optional<Item> item = queue_.pop();
  if (!item) return std::nullopt;
  if (item->error) {
    error_ = item->error;
    std::rethrow_exception(error_);
  }
  return std::move(item->batch);
}

void Loader::run(const std::stop_token& stop) {
  const auto step = static_cast<std::uint64_t>(options_.shape.global);
  const std::uint64_t end = corpus_->num_samples() * static_cast<std::uint64_t>(options_.epochs);
  try {
    for (std::uint64_t first = options_.first_sample; !stop.stop_requested(); first += step) {
      if (options_.epochs > 0 && first + step > end) break;
      if (!queue_.push({make(first), nullptr})) return;
    }
  } catch (...) {  // travels to the caller of next()
    queue_.push({{}, std::current_exception()});
  }
  queue_.close();
}

StepBatch Loader::make(std::uint64_t first_sample) const {
  const core::TraceScope scope(trace_, "loader", "make batch");
  const BatchShape& shape = options_.shape;
  StepBatch step{.first_sample = first_sample};
  for (int micro_index = 0; micro_index < shape.num_micro_batches(); ++micro_index) {
    std::vector<std::uint64_t> samples =
        batch_positions(first_sample, shape, options_.rank, micro_index);
    for (std::uint64_t& sample : samples)
      sample = sample_at(sample, corpus_->num_samples(), options_.seed);
    step.micro_batches.push_back(sample_batch(*corpus_, samples));
    step.tokens += step.micro_batches.back().tokens;
  }
  step.global_tokens = step.tokens * shape.dp;  // every sample has the same number of targets
  return step;
}

}  // namespace tutti::data
