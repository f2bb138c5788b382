// Layout of the control memory: header (figures, abort record), rank lines, envelopes, one-shot
// slots.
#include "comm/control.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <cstring>

#include "core/clock.h"
#include "core/error.h"

namespace tutti::comm {

struct ControlBlock::Header {
  std::array<std::atomic<double>, 8> figures;
  AbortRecord abort;
};

namespace {

constexpr std::size_t kHeaderBytes = 4096;
constexpr core::Seconds kWriting(0.05);  // 3 KiB take a microsecond

std::size_t envelope_bytes(int ranks, int credits) {
  return sizeof(Envelope) * static_cast<std::size_t>(ranks) * ranks * credits;
}

}  // namespace

void SharedText::set(std::string_view text) {
  std::array<char, sizeof(words_)> chars = {};
  std::memcpy(chars.data(), text.data(), std::min(text.size(), chars.size() - 1));
  for (std::size_t i = 0; i < words_.size(); ++i) {
    std::uint64_t word = 0;
    std::memcpy(&word, chars.data() + 8 * i, 8);
    words_[i].store(word, std::memory_order_relaxed);
  }
}

std::string SharedText::get() const {
  std::array<char, sizeof(words_)> chars = {};
  for (std::size_t i = 0; i < words_.size(); ++i) {
    const std::uint64_t word = words_[i].load(std::memory_order_relaxed);
    std::memcpy(chars.data() + 8 * i, &word, 8);
  }
  return {chars.data(), ::strnlen(chars.data(), chars.size())};
}

std::size_t ControlBlock::bytes(int ranks, int credits) {
  const auto n = static_cast<std::size_t>(ranks);
  return kHeaderBytes + n * (sizeof(RankLines) + 2 * kOneShotBytes) +
         envelope_bytes(ranks, credits);
}

ControlBlock::ControlBlock(std::shared_ptr<Mapping> memory, int ranks, int credits)
    : memory_(std::move(memory)), ranks_(ranks), credits_(credits) {
  static_assert(sizeof(Header) <= kHeaderBytes);
  TUTTI_CHECK(memory_->bytes() >= bytes(ranks, credits));
  std::byte* at = memory_->data() + kHeaderBytes;
  lines_ = reinterpret_cast<RankLines*>(at);
  at += sizeof(RankLines) * static_cast<std::size_t>(ranks);
  envelopes_ = reinterpret_cast<Envelope*>(at);
  one_shot_ = at + envelope_bytes(ranks, credits);
}

ControlBlock::Header& ControlBlock::header() const {
  return *reinterpret_cast<Header*>(memory_->data());
}

std::array<std::atomic<double>, 8>& ControlBlock::figures() const { return header().figures; }

void ControlBlock::abort(int culprit, const std::string& text) const {
  AbortRecord& record = header().abort;
  std::uint32_t none = AbortRecord::kNone;
  const auto claim = AbortRecord::kBeingWritten + static_cast<std::uint32_t>(culprit + 1);
  if (!record.state.compare_exchange_strong(none, claim)) return;  // the first error stays
  record.culprit = culprit;
  const std::size_t length = std::min(text.size(), record.text.size() - 1);
  std::memcpy(record.text.data(), text.data(), length);
  record.text[length] = '\0';
  record.state.store(AbortRecord::kWhole);
}

bool ControlBlock::any_abort() const { return header().abort.state.load() != AbortRecord::kNone; }

std::optional<Abort> ControlBlock::aborted() const {
  const AbortRecord& record = header().abort;
  std::uint32_t state = record.state.load();
  if (state == AbortRecord::kNone) return std::nullopt;
  // Its writer may have died in between. If it only lost its core, it gets one back by the yields.
  const core::Deadline deadline(kWriting);
  while ((state = record.state.load()) != AbortRecord::kWhole) {
    if (deadline.passed()) {
      const std::uint32_t who = state - AbortRecord::kBeingWritten;
      const int culprit = who <= kMostRanks ? static_cast<int>(who) - 1 : -1;
      return Abort{culprit, fmt::format("a rank died while it reported an error{}",
                                        culprit < 0 ? "" : fmt::format(" of rank {}", culprit))};
    }
    ::sched_yield();
  }
  return Abort{record.culprit,
               std::string(record.text.data(), ::strnlen(record.text.data(), record.text.size()))};
}

}  // namespace tutti::comm
