// The checkpoint thread's work.
#include "train/checkpointer.h"

#include <vector>

#include "core/error.h"
#include "core/log.h"
#include "core/thread.h"

namespace tutti::train {
namespace {

constexpr std::string_view kFailed = "failed: ";
constexpr core::Seconds kLookUp{0.5};

}  // namespace

Checkpointer::Checkpointer(CheckpointerOptions options, std::unique_ptr<comm::Store> store,
                           core::Trace* trace)
    : options_(std::move(options)), store_(std::move(store)), trace_(trace) {}

Checkpointer::~Checkpointer() {
  thread_.request_stop();  // a run that ends in order has called wait() before
  try {
    wait();
  } catch (const std::exception& error) {
    core::log::error("{}", error.what());
  }
}

void Checkpointer::save(Snapshot snapshot, checkpoint::Index index) {
  wait();
  thread_ = core::start_thread("checkpoint",
                               [this, snapshot = std::make_shared<Snapshot>(std::move(snapshot)),
                                index = std::move(index)](const std::stop_token& stop) {
                                 try {
                                   write(*snapshot, index, stop);
                                 } catch (...) {
                                   error_ = std::current_exception();
                                 }
                               });
}

void Checkpointer::wait() {
  if (thread_.joinable()) thread_.join();
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
}

void Checkpointer::write(const Snapshot& snapshot, const checkpoint::Index& index,
                         const std::stop_token& stop) {
  const core::TraceScope scope(trace_, "checkpoint", fmt::format("save step {}", index.step));
  std::string own;
  std::exception_ptr failure;
  try {
    own = write_own(snapshot, index.step);
  } catch (const std::exception& error) {
    own = fmt::format("{}rank {}: {}", kFailed, options_.rank, error.what());
    failure = std::current_exception();
  }
  if (store_ != nullptr)
    store_->set(fmt::format("checkpoint/{}/rank/{}", index.step, options_.rank), own);
  if (options_.rank == 0) {
    finish(own, index, stop);
  } else {
    const std::string verdict = await(fmt::format("checkpoint/{}/verdict", index.step), stop);
    if (verdict.starts_with(kFailed) && !failure)
      throw core::RunError(verdict.substr(kFailed.size()));
  }
  if (failure) std::rethrow_exception(failure);
}

std::string Checkpointer::write_own(const Snapshot& snapshot, std::int64_t step) {
  return checkpoint::write_rank_file(checkpoint::temporary_folder(options_.folder, step),
                                     options_.rank, snapshot.pieces());
}

// A rank that died never answers: the wait looks up twice a second whether the run has failed
// meanwhile.
std::string Checkpointer::await(const std::string& key, const std::stop_token& stop) {
  const core::Deadline deadline(options_.timeout);
  while (true) {
    try {
      return store_->get(key, core::Deadline(kLookUp));
    } catch (const core::PeerError&) {
      if (stop.stop_requested() || deadline.passed()) throw;
    }
  }
}

void Checkpointer::finish(const std::string& own, const checkpoint::Index& index,
                          const std::stop_token& stop) {
  std::string verdict = "saved";
  try {
    std::vector<std::string> pieces = {own};
    for (int rank = 1; rank < options_.ranks; ++rank) {
      pieces.push_back(await(fmt::format("checkpoint/{}/rank/{}", index.step, rank), stop));
    }
    for (const std::string& text : pieces) {
      if (text.starts_with(kFailed)) throw core::RunError(text.substr(kFailed.size()));
    }
    last_ = checkpoint::commit(options_.folder, index, pieces);
    checkpoint::prune(options_.folder, options_.keep);
  } catch (const std::exception& error) {
    checkpoint::discard(options_.folder, index.step);
    verdict = fmt::format("{}{}", kFailed, error.what());
  }
  if (store_ != nullptr) store_->set(fmt::format("checkpoint/{}/verdict", index.step), verdict);
  if (verdict.starts_with(kFailed)) {
    throw core::RunError(fmt::format(
        "The checkpoint of step {} was not saved: {}. Older checkpoints in {} are intact.",
        index.step, verdict.substr(kFailed.size()), options_.folder.string()));
  }
}

}  // namespace tutti::train
