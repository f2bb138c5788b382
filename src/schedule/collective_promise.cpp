// What an operation promises: where its inputs lie when the walk of schedule/collective_proof.h
// begins, and what must stand where when it ends.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "schedule/collective_proof.h"

namespace tutti::schedule {
namespace {

// "rank 3 is missing", "rank 2 is in it 2 times": what a sum of all ranks lacks.
std::string difference(const std::vector<int>& got, const std::vector<int>& wanted) {
  std::vector<std::string> parts;
  for (std::size_t rank = 0; rank < got.size() && parts.size() < 4; ++rank) {
    if (got[rank] == wanted[rank]) continue;
    parts.push_back(got[rank] == 0 ? fmt::format("rank {} is missing", rank)
                                   : fmt::format("rank {} is in it {} times instead of {}", rank,
                                                 got[rank], wanted[rank]));
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

}  // namespace

void Proof::fill_inputs() {
  for (int rank = 0; rank < ranks_; ++rank) {
    const bool is_root = rank == schedule_.request.root;
    const Slice all{0, schedule_.data_elements(rank)};
    const auto fill = [&](Space space, Slice slice) {
      buffer(rank, space).visit(slice, [&](Slice, Held& held) { held.sum = sums_.own(rank); });
    };
    switch (schedule_.request.operation) {
      case Operation::AllReduce:
      case Operation::ReduceScatter:
      case Operation::Reduce:
        fill(Space::Data, all);
        break;
      case Operation::AllGather:
      case Operation::Gather:
        fill(Space::Data, schedule_.shares[static_cast<std::size_t>(rank)]);
        break;
      case Operation::Broadcast:
      case Operation::Scatter:
        if (is_root) fill(Space::Data, all);
        break;
      case Operation::AllToAll:
        fill(Space::Input, {0, schedule_.input_elements(rank)});
        break;
    }
  }
}

void Proof::check_end() {
  for (int rank = 0; rank < ranks_; ++rank) {
    check_left(rank);
    if (fault_ != Fault::None) return;
  }
  const bool reduces = schedule_.request.operation == Operation::AllReduce ||
                       schedule_.request.operation == Operation::ReduceScatter ||
                       schedule_.request.operation == Operation::Reduce;
  std::vector<SummedSlice> sums;
  if (reduces) sums = promised_sums(schedule_, sums_);
  for (int rank = 0; rank < ranks_ && fault_ == Fault::None; ++rank) {
    if (schedule_.request.operation == Operation::AllToAll) {
      for (int from = 0; from < ranks_; ++from) {
        const Slice slice = schedule_.parts->output(from, rank);
        const auto shift = static_cast<std::ptrdiff_t>(schedule_.parts->input(from, rank).begin) -
                           static_cast<std::ptrdiff_t>(slice.begin);
        check_result(rank, {{slice, sums_.own(from)}}, shift);
      }
    } else if (!reduces) {
      check_result(rank, result_of(rank), 0);
    } else if (schedule_.request.operation != Operation::Reduce || rank == schedule_.request.root) {
      const bool scattered = schedule_.request.operation == Operation::ReduceScatter;
      const Slice mine = scattered ? schedule_.shares[static_cast<std::size_t>(rank)]
                                   : Slice{0, schedule_.data_elements(rank)};
      std::vector<SummedSlice> wanted;
      for (const SummedSlice& part : sums) {
        const Slice both{std::max(part.slice.begin, mine.begin),
                         std::min(part.slice.end, mine.end)};
        if (both.begin < both.end) wanted.push_back({both, part.sum});
      }
      check_result(rank, wanted, 0);
    }
  }
}

// What operations that only move values promise to `rank`.
std::vector<SummedSlice> Proof::result_of(int rank) {
  const CollectiveRequest& request = schedule_.request;
  const Slice all{0, schedule_.data_elements(rank)};
  std::vector<SummedSlice> every_share;
  for (int other = 0; other < ranks_ && !schedule_.shares.empty(); ++other) {
    every_share.push_back({schedule_.shares[static_cast<std::size_t>(other)], sums_.own(other)});
  }
  switch (request.operation) {
    case Operation::AllGather:
      return every_share;
    case Operation::Gather:
      return rank == request.root ? every_share : std::vector<SummedSlice>{};
    case Operation::Broadcast:
      return {{all, sums_.own(request.root)}};
    case Operation::Scatter:
      return {{schedule_.shares[static_cast<std::size_t>(rank)], sums_.own(request.root)}};
    default:
      return {};
  }
}

// The caller gets Data and Input back when its list ends: all accesses of others must be over by
// then.
void Proof::check_left(int rank) {
  for (const Space space : {Space::Data, Space::Input}) {
    Pieces<Held>& pieces = buffer(rank, space);
    pieces.visit({0, pieces.size()}, [&](Slice slice, Held& held) {
      std::vector<Access> accesses = held.read;
      accesses.push_back(held.written);
      for (const Access& access : accesses) {
        if (before(access, rank)) continue;
        fail(Fault::Race,
             fmt::format("rank {} may end while {} still uses elements [{}, {}) of its {}", rank,
                         where({access.rank, access.entry}), slice.begin, slice.end, name(space)));
      }
    });
  }
}

void Proof::check_result(int rank, const std::vector<SummedSlice>& wanted, std::ptrdiff_t shift) {
  for (const SummedSlice& part : wanted) {
    buffer(rank, Space::Data).visit(part.slice, [&](Slice slice, Held& held) {
      if (held.sum == part.sum && held.shift == shift) return;
      const std::string element = fmt::format("element {} of rank {} ends", slice.begin, rank);
      if (held.sum == Sums::kNothing) {
        fail(Fault::Wrong, element + " without a value");
      } else if (held.shift != shift) {
        fail(Fault::Wrong, fmt::format("{} with rank values of element {} instead of {}", element,
                                       static_cast<std::ptrdiff_t>(slice.begin) + held.shift,
                                       static_cast<std::ptrdiff_t>(slice.begin) + shift));
      } else if (sums_.counts(held.sum) != sums_.counts(part.sum)) {
        fail(Fault::Wrong, fmt::format("{} with {}: {}", element, sums_.text(held.sum),
                                       difference(sums_.counts(held.sum), sums_.counts(part.sum))));
      } else {
        fail(Fault::Order, fmt::format("{} with {}, promised is {}", element, sums_.text(held.sum),
                                       sums_.text(part.sum)));
      }
    });
  }
}

}  // namespace tutti::schedule
