// Cuts of schedule/shares.h.
#include "schedule/shares.h"

#include <algorithm>

namespace tutti::schedule {

Shares even_shares(Slice range, int parts, std::size_t align) {
  const std::size_t units = (range.size() + align - 1) / align;
  const std::size_t count = static_cast<std::size_t>(parts);
  const std::size_t each = units / count;
  const std::size_t larger = units % count;  // the first `larger` shares hold one unit more
  const auto begin_of = [&](std::size_t part) {
    const std::size_t unit = part * each + std::min(part, larger);
    return std::min(range.begin + unit * align, range.end);
  };
  Shares shares(count);
  for (std::size_t part = 0; part < count; ++part) {
    shares[part] = {begin_of(part), begin_of(part + 1)};
  }
  return shares;
}

Shares counted_shares(std::span<const std::size_t> counts) {
  Shares shares;
  shares.reserve(counts.size());
  std::size_t begin = 0;
  for (const std::size_t count : counts) {
    shares.push_back({begin, begin + count});
    begin += count;
  }
  return shares;
}

Slice joined(const Shares& shares, int first, int last) {
  if (first >= last) return {};
  return {shares[static_cast<std::size_t>(first)].begin,
          shares[static_cast<std::size_t>(last) - 1].end};
}

Parts::Parts(int ranks, std::span<const std::size_t> counts) : ranks_(ranks) {
  const auto row = static_cast<std::size_t>(ranks) + 1;
  sent_.assign(row * static_cast<std::size_t>(ranks), 0);
  received_ = sent_;
  for (std::size_t a = 0; a + 1 < row; ++a) {
    for (std::size_t b = 0; b + 1 < row; ++b) {
      sent_[a * row + b + 1] = sent_[a * row + b] + counts[a * (row - 1) + b];
      received_[a * row + b + 1] = received_[a * row + b] + counts[b * (row - 1) + a];
    }
  }
}

Slice Parts::input(int from, int to) const {
  const auto at = static_cast<std::size_t>(from * (ranks_ + 1) + to);
  return {sent_[at], sent_[at + 1]};
}

Slice Parts::output(int from, int to) const {
  const auto at = static_cast<std::size_t>(to * (ranks_ + 1) + from);
  return {received_[at], received_[at + 1]};
}

std::size_t Parts::input_elements(int rank) const { return input(rank, ranks_ - 1).end; }
std::size_t Parts::output_elements(int rank) const { return output(ranks_ - 1, rank).end; }

}  // namespace tutti::schedule
