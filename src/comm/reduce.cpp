// Tile by tile: combine in cache, look at the result, store it everywhere.
#include "comm/reduce.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>

#include "comm/lines.h"
#include "comm/small_list.h"
#include "core/error.h"

namespace tutti::comm {
namespace {

double total(const double (&lanes)[kLanes]) {
  return ((lanes[0] + lanes[1]) + (lanes[2] + lanes[3])) +
         ((lanes[4] + lanes[5]) + (lanes[6] + lanes[7]));
}

std::uint64_t sources_not_finite(const TypeKernels& kernels, std::span<const void* const> sources,
                                 std::size_t n) {
  std::uint64_t ranks = 0;
  for (std::size_t s = 0; s < sources.size(); ++s) {
    if (kernels.any_not_finite(sources[s], n)) ranks |= std::uint64_t{1} << (s % 64);
  }
  return ranks;
}

// Sums of runs of sources, then the sum of these: in fp32 for half types, rounded once.
class RunSums {
 public:
  RunSums(const Reduction& what, std::size_t sources, const Kernels& kernels)
      : type_(kernels.of(what.dtype)),
        half_(type_.widen != nullptr),
        wide_(half_ ? kernels.of(DType::Float32) : type_),
        run_(static_cast<std::size_t>(what.run)),
        partial_((sources + run_ - 1) / run_ * kTileBytes),
        widened_(half_ ? run_ * kTileBytes : 0) {}

  void combine(ReduceOp op, std::span<const void* const> sources, void* out, std::size_t n,
               const Scale& scale) {
    std::vector<const void*> sums;
    for (std::size_t first = 0; first < sources.size(); first += run_) {
      std::byte* const sum = partial_.data() + sums.size() * kTileBytes;
      const auto members = sources.subspan(first, std::min(run_, sources.size() - first));
      const std::vector<const void*> values = widened(members, n);
      wide_.combine(op, values.data(), values.size(), sum, n, {scale.factor, 1});
      sums.push_back(sum);
    }
    void* const total = half_ ? static_cast<void*>(widened_.data()) : out;
    wide_.combine(op, sums.data(), sums.size(), total, n, {1, scale.divide_by});
    if (half_) type_.round(static_cast<const float*>(total), out, n);
  }

 private:
  static constexpr std::size_t kTileBytes = kTileElements * sizeof(double);

  std::vector<const void*> widened(std::span<const void* const> members, std::size_t n) {
    std::vector<const void*> values(members.begin(), members.end());
    if (!half_) return values;
    for (std::size_t i = 0; i < values.size(); ++i) {
      auto* const tile = reinterpret_cast<float*>(widened_.data() + i * kTileBytes);
      type_.widen(values[i], tile, n);
      values[i] = tile;
    }
    return values;
  }

  const TypeKernels& type_;
  bool half_;
  const TypeKernels& wide_;
  std::size_t run_;
  std::vector<std::byte> partial_, widened_;
};

void own_lines(const std::byte* data, std::size_t bytes) {
  for (std::size_t i = 0; i < bytes; i += 64) own_line(data + i);
}

// Only there does the order of additions show.
bool order_matters(DType dtype, ReduceOp op) {
  return floating(dtype) && op != ReduceOp::Max && op != ReduceOp::Min;
}

}  // namespace

BlockSums::BlockSums(ReduceStats& stats, std::size_t begin, std::size_t end, std::size_t whole)
    : stats_(stats), at_(begin), whole_(whole) {
  const auto starts = stats.block_starts;
  const auto first =
      std::lower_bound(starts.begin(), starts.end(), static_cast<std::int64_t>(begin));
  const auto last = std::lower_bound(first, starts.end(), static_cast<std::int64_t>(end));
  block_ = static_cast<std::size_t>(first - starts.begin());
  stats.first_block = static_cast<int>(block_);
  stats.squares.clear();
  stats.not_finite.clear();
  stats.squares.reserve(static_cast<std::size_t>(last - first));
  stats.not_finite.reserve(static_cast<std::size_t>(last - first));
}

std::size_t BlockSums::left_in_block() const {
  const std::size_t next = block_ + 1;
  const auto starts = stats_.block_starts;
  return (next < starts.size() ? static_cast<std::size_t>(starts[next]) : whole_) - at_;
}

bool BlockSums::not_finite_so_far() const { return !std::isfinite(total(lanes_)); }

void BlockSums::add(const TypeKernels& kernels, const void* x, std::size_t n) {
  const auto begin = static_cast<std::size_t>(stats_.block_starts[block_]);
  kernels.squares(x, n, at_ - begin, lanes_);
}

void BlockSums::blame(std::uint64_t ranks) { blamed_ |= ranks; }

void BlockSums::advance(std::size_t n) {
  at_ += n;
  if (left_in_block() == 0) finish_block();
}

void BlockSums::finish_block() {
  stats_.squares.push_back(total(lanes_));
  stats_.not_finite.push_back(blamed_);
  std::fill(std::begin(lanes_), std::end(lanes_), 0.0);
  blamed_ = 0;
  ++block_;
}

void reduce(const Reduction& what, std::span<const void* const> sources,
            std::span<void* const> destinations, std::size_t count, BlockSums* sums,
            const Kernels& kernels) {
  TUTTI_CHECK(!sources.empty() && !destinations.empty());
  const TypeKernels& type = kernels.of(what.dtype);
  const std::size_t bytes = element_bytes(what.dtype);
  const ReduceOp op = what.op.op;
  const Scale scale = {what.op.factor, op == ReduceOp::Avg ? what.ranks : 1};
  const bool extremum = op == ReduceOp::Max || op == ReduceOp::Min;
  alignas(64) std::byte tile[kTileElements * sizeof(double)];
  // Without statistics, and where the kernel allows it, the first destination is the tile.
  const bool straight = sums == nullptr;
  if (straight && type.add_pair != nullptr && sources.size() == 2 && destinations.size() == 2 &&
      (op == ReduceOp::Sum || op == ReduceOp::Avg) && scale.factor == 1) {
    return type.add_pair(sources.data(), destinations.data(), count, scale.divide_by);
  }
  // One source that stays where it is: only statistics are owed.
  const bool stays = !straight && sources.size() == 1 && destinations.size() == 1 &&
                     sources[0] == destinations[0] && scale.factor == 1 && scale.divide_by == 1;
  SmallList<const void*> from(sources.size());

  std::optional<RunSums> runs;
  if (what.run > 1 && static_cast<std::size_t>(what.run) < sources.size() &&
      order_matters(what.dtype, op)) {
    runs.emplace(what, sources.size(), kernels);
  }

  for (std::size_t done = 0; done < count;) {
    std::size_t n = std::min(count - done, kTileElements);
    if (sums != nullptr) n = std::min(n, sums->left_in_block());
    const std::size_t offset = done * bytes;
    for (std::size_t s = 0; s < sources.size(); ++s) {
      from[s] = static_cast<const std::byte*>(sources[s]) + offset;
    }
    for (void* const destination : destinations) {
      if (!stays) own_lines(static_cast<std::byte*>(destination) + offset, n * bytes);
    }
    void* result = straight || stays ? static_cast<std::byte*>(destinations[0]) + offset : tile;
    if (stays) {
      // nothing to combine
    } else if (runs) {
      runs->combine(op, from.all(), result, n, scale);
    } else {
      type.combine(op, from.data(), from.size(), result, n, scale);
    }
    if (sums != nullptr) {
      sums->add(type, result, n);
      // An infinity can vanish in a maximum but not in a sum: there only bad blocks are searched.
      if (extremum || sums->not_finite_so_far())
        sums->blame(sources_not_finite(type, from.all(), n));
      sums->advance(n);
    }
    for (std::size_t d = straight || stays ? 1 : 0; d < destinations.size(); ++d) {
      kernels.copy(static_cast<std::byte*>(destinations[d]) + offset, result, n * bytes);
    }
    done += n;
  }
}

}  // namespace tutti::comm
