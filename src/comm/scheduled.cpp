// The executor of schedules: what happens before the list, after it, and who is awaited.
// scheduled_steps.cpp has the verbs.
#include "comm/scheduled.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "core/error.h"

namespace tutti::comm {

using schedule::Verb;

namespace {

template <class Counts>
std::uint64_t sum_of_counts(const Counts& counts) {
  std::uint64_t sum = 1;
  for (const auto count : counts) sum = mixed(sum, static_cast<std::uint64_t>(count));
  return sum;
}

}  // namespace

ScheduledOperation::ScheduledOperation(std::shared_ptr<Group> group, const Signature& signature,
                                       Label label, ScheduledWork work)
    : CollectiveOperation(std::move(group), signature, label),
      work_(std::move(work)),
      dtype_(signature.dtype) {
  const bool half = dtype_ == DType::BFloat16 || dtype_ == DType::Float16;
  if (reduces() && half) dtype_ = DType::Float32;
  element_ = element_bytes(dtype_);
  if (signature.op == Collective::AllToAll) {  // the caller's lists need not outlive the call
    counts_copy_.assign(work_.send_counts.begin(), work_.send_counts.end());
    expected_.assign(work_.recv_counts.begin(), work_.recv_counts.end());
  } else {
    plan_ = this->group().plans().get(work_.request, this->group().rank());
  }
}

bool ScheduledOperation::reduces() const {
  return signature_.op == Collective::AllReduce || signature_.op == Collective::ReduceScatter ||
         signature_.op == Collective::Reduce;
}

void ScheduledOperation::prepare(OpDescriptor& mine) {
  lay_data(mine);
  if (signature_.op == Collective::AllToAll) {
    lay_input(mine);
    std::byte* slot = group().block().one_shot(group().rank(), number());
    std::memcpy(slot, counts_copy_.data(), counts_copy_.size() * sizeof(std::int64_t));
    OpDescriptor::Words words = mine.words();
    words.counts = sum_of_counts(counts_copy_);
    mine.set_words(words);
  } else {
    lay_scratch(mine);
  }
  load();
  if (work_.stats != nullptr) flag_not_finite();
}

void ScheduledOperation::lay_data(OpDescriptor& mine) {
  const DataPart& home = work_.home;
  const bool as_it_is = dtype_ == signature_.dtype && home.data != nullptr;
  const bool reachable = as_it_is && (!work_.shared || home.count == 0 ||
                                      register_buffer(mine, home.data, home.count * element_));
  if (reachable) {
    // Only elements of the part are ever touched; the rest of Data has no memory here.
    data_ = static_cast<std::byte*>(home.data) - home.begin * element_;
  } else {
    const std::size_t bytes = std::max<std::size_t>(work_.request.elements, 1) * element_;
    data_copy_ = group().engine().arena().allocate(bytes);
    data_ = data_copy_.get();
    register_buffer(mine, data_, bytes);
  }
  if (work_.shared) mine.flags |= kRegistered;
}

void ScheduledOperation::lay_input(OpDescriptor& mine) {
  const ConstBuffer& input = work_.input;
  const void* data = input.data;
  if (input.count > 0 && !group().engine().arena().find(data, input.bytes())) {
    input_copy_ = group().engine().arena().allocate(input.bytes());
    std::memcpy(input_copy_.get(), data, input.bytes());
    data = input_copy_.get();
  }
  second_of_.assign(static_cast<std::size_t>(group().size()), nullptr);
  second_of_[static_cast<std::size_t>(group().rank())] =
      const_cast<std::byte*>(static_cast<const std::byte*>(data));
  if (input.count == 0) return;
  const auto at = group().engine().arena().find(data, input.bytes());
  mine.out_segment = at->segment;
  mine.out_offset = at->offset;
}

void ScheduledOperation::lay_scratch(OpDescriptor& mine) {
  scratch_bytes_ = plan_->schedule.scratch * element_;
  flag_bytes_ = work_.stats != nullptr ? work_.stats->block_starts.size() : 0;
  second_of_.assign(static_cast<std::size_t>(group().size()), nullptr);
  if (scratch_bytes_ + flag_bytes_ == 0) return;
  std::byte* memory = group().scratch(number(), scratch_bytes_ + flag_bytes_);
  second_of_[static_cast<std::size_t>(group().rank())] = memory;
  const auto at = group().engine().arena().find(memory, scratch_bytes_ + flag_bytes_);
  mine.out_segment = at->segment;
  mine.out_offset = at->offset;
}

void ScheduledOperation::load() {
  const DataPart& from = work_.load;
  if (from.count == 0) return;
  std::byte* to = data_ + from.begin * element_;
  if (dtype_ != signature_.dtype) {
    best_kernels().of(signature_.dtype).widen(from.data, reinterpret_cast<float*>(to), from.count);
  } else if (to != from.data) {
    std::memcpy(to, from.data, from.count * element_);
  }
  if (signature_.reduce.factor != 1) {
    reduce({dtype_, signature_.reduce, 1}, {{to}}, {{to}}, from.count, nullptr);
  }
}

// One byte per block of this rank's own values, for whoever reduces that block.
void ScheduledOperation::flag_not_finite() {
  const auto starts = work_.stats->block_starts;
  std::byte* flags = second_of_[static_cast<std::size_t>(group().rank())] + scratch_bytes_;
  for (std::size_t b = 0; b < starts.size(); ++b) {
    const auto begin = static_cast<std::size_t>(starts[b]);
    const std::size_t end =
        b + 1 < starts.size() ? static_cast<std::size_t>(starts[b + 1]) : work_.request.elements;
    const bool bad =
        best_kernels().of(dtype_).any_not_finite(data_ + begin * element_, end - begin);
    flags[b] = std::byte{bad};
  }
}

void ScheduledOperation::arrived() {
  if (signature_.op == Collective::AllToAll) take_counts();
  find_peers();
}

void ScheduledOperation::refuse_counts(int from) const {
  const int peer = group().world_rank(from);
  throw core::PeerError(
      peer,
      fmt::format("the counts of rank {} for all_to_all #{} of group {} are not what it wrote: "
                  "its control memory is damaged",
                  peer, number(), group().name()));
}

// Everybody's lists lie beside the descriptors: what a peer sends here must be what is expected.
void ScheduledOperation::take_counts() {
  const auto ranks = static_cast<std::size_t>(group().size());
  std::vector<std::size_t> matrix(ranks * ranks);
  for (std::size_t from = 0; from < ranks; ++from) {
    const std::byte* slot = group().block().one_shot(static_cast<int>(from), number());
    const std::span row(&matrix[from * ranks], ranks);
    std::memcpy(row.data(), slot, row.size_bytes());
    const std::uint64_t sum = descriptor(static_cast<int>(from)).words().counts;
    if (sum != sum_of_counts(row)) refuse_counts(static_cast<int>(from));
  }
  const auto me = static_cast<std::size_t>(group().rank());
  for (std::size_t from = 0; from < ranks; ++from) {
    const std::size_t sent = matrix[from * ranks + me];
    if (sent == expected_[from]) continue;
    const int peer = group().world_rank(static_cast<int>(from));
    throw core::PeerError(
        peer,
        fmt::format("rank {} expects {} elements of rank {} in all_to_all #{} of group {}, "
                    "but rank {} sends {}. What one rank sends is what the other must expect.",
                    group().engine().rank(), expected_[from], peer, number(), group().name(), peer,
                    sent));
  }
  // Only this rank's row and column matter to its list, and only they are known to agree; offsets
  // into a peer's input come from its own row, which that rank has checked.
  work_.request.counts = std::move(matrix);
  plan_ = group().plans().get(work_.request, group().rank());
}

void ScheduledOperation::find_peers() {
  const int ranks = group().size();
  data_of_.assign(static_cast<std::size_t>(ranks), nullptr);
  const bool exchange = signature_.op == Collective::AllToAll;
  for (int r = 0; r < ranks; ++r) {
    const auto i = static_cast<std::size_t>(r);
    if (r == group().rank()) {
      data_of_[i] = data_;
      continue;
    }
    const OpDescriptor& theirs = descriptor(r);
    const std::size_t whole = work_.request.elements * element_;
    if ((theirs.flags & kRegistered) != 0 && whole > 0 && !exchange) {
      data_of_[i] = group().address(r, theirs.in_segment, theirs.in_offset, whole);
    }
    const std::size_t second =
        exchange ? plan_->schedule.input_elements(r) * element_ : scratch_bytes_ + flag_bytes_;
    if (second > 0) {
      second_of_[i] = group().address(r, theirs.out_segment, theirs.out_offset, second);
    }
  }
}

Progress ScheduledOperation::run() {
  const std::vector<Step>& steps = plan_->steps;
  bool moved = false;
  while (at_ < steps.size()) {
    std::size_t end = at_;
    while (end < steps.size() && steps[end].step == steps[at_].step) ++end;
    done_.resize(end - at_, false);
    bool waits = false;
    for (std::size_t i = at_; i < end; ++i) {
      if (done_[i - at_] || (partial_ > 0 && i != under_way_) || is_overtaking(i)) continue;
      under_way_ = i;
      const Progress progress = execute(steps[i]);
      if (progress == Progress::Moved) return Progress::Moved;
      if (progress == Progress::Waiting) {
        waits = true;
        continue;
      }
      done_[i - at_] = true;
      moved = true;
    }
    if (std::find(done_.begin(), done_.end(), false) != done_.end()) {
      return moved || !waits ? Progress::Moved : Progress::Waiting;
    }
    at_ = end;
    done_.clear();
  }
  store();
  if (work_.stats != nullptr) fill_stats();
  return Progress::Done;
}

// The messages of a pair are told apart by their order alone: none may pass one that still waits,
// not even when what that one waits for comes between the two looks.
bool ScheduledOperation::is_overtaking(std::size_t entry) const {
  const std::vector<Step>& steps = plan_->steps;
  const Step& step = steps[entry];
  const bool sends = step.verb == Verb::Send, receives = schedule::receives(step.verb);
  if (!sends && !receives) return false;
  for (std::size_t i = at_; i < entry; ++i) {
    const bool same_way = sends ? steps[i].verb == Verb::Send : schedule::receives(steps[i].verb);
    if (!done_[i - at_] && same_way && steps[i].peers.first == step.peers.first) return true;
  }
  return false;
}

void ScheduledOperation::store() {
  const DataPart& to = work_.store;
  if (to.count == 0) return;
  std::byte* from = data_ + to.begin * element_;
  if (reduces() && signature_.reduce.op == ReduceOp::Avg) {  // the list has made the sum
    const int ranks = group().size();
    reduce({dtype_, ReduceOp::Avg, ranks}, {{from}}, {{from}}, to.count, nullptr);
  }
  if (dtype_ != signature_.dtype) {
    best_kernels().of(signature_.dtype).round(reinterpret_cast<float*>(from), to.data, to.count);
  } else if (from != to.data) {
    std::memcpy(to.data, from, to.count * element_);
  }
}

void ScheduledOperation::fill_stats() {
  const auto me = static_cast<std::size_t>(group().rank());
  const std::size_t end = work_.bounds[me + 1], bytes = element_bytes(signature_.dtype);
  const TypeKernels& type = best_kernels().of(signature_.dtype);
  const auto* result = static_cast<const std::byte*>(work_.store.data);
  BlockSums sums(*work_.stats, work_.bounds[me], end, work_.request.elements);
  auto block = static_cast<std::size_t>(work_.stats->first_block);
  for (std::size_t at = work_.bounds[me]; at < end;) {
    const std::size_t left = sums.left_in_block();
    const std::size_t n = std::min(left, kTileElements);
    sums.add(type, result + (at - work_.store.begin) * bytes, n);
    if (n == left) {
      std::uint64_t bad = 0;
      for (std::size_t r = 0; r < second_of_.size(); ++r) {
        if (second_of_[r][scratch_bytes_ + block] != std::byte{0})
          bad |= std::uint64_t{1} << (r % 64);
      }
      sums.blame(bad);
      ++block;
    }
    sums.advance(n);
    at += n;
  }
}

std::vector<int> ScheduledOperation::missing() const {
  std::vector<int> ranks = CollectiveOperation::missing();
  if (!ranks.empty() || !plan_) return ranks;
  for (std::size_t i = at_; i < at_ + done_.size() && i < plan_->steps.size(); ++i) {
    if (done_[i - at_]) continue;
    const Step& step = plan_->steps[i];
    for (int p = 0; p < step.peers.count; ++p) {
      const int r = step.peers.rank(p);
      const bool awaited =
          r != group().rank() &&
          ((step.verb == Verb::Await && !is_past(r, static_cast<std::uint32_t>(step.mark))) ||
           (step.verb == Verb::Send && outgoing(r).full.load() != 0) ||
           (schedule::receives(step.verb) && incoming(r).full.load() == 0));
      if (awaited && std::find(ranks.begin(), ranks.end(), r) == ranks.end()) ranks.push_back(r);
    }
  }
  return ranks;
}

}  // namespace tutti::comm
