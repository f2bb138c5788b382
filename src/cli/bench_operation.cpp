// What each collective is called with, and what it must give.
#include "cli/bench_operation.h"

#include <cstdlib>
#include <cstring>
#include <numeric>

namespace tutti::cli {
namespace {

using comm::Collective;
using comm::DType;

// Small whole numbers, exact in every type, also when 16 ranks add them.
int value_of(int rank, std::size_t element) {
  return static_cast<int>((element * 7 + static_cast<std::size_t>(rank) * 3) % 8);
}

// fp16, bf16, fp32: exact in each; the conversion is the type's own definition for 0 ... 127.
void put(DType dtype, std::byte* to, int value) {
  const auto write = [to](auto typed) { std::memcpy(to, &typed, sizeof(typed)); };
  const auto single = static_cast<float>(value);
  std::uint32_t bits = 0;
  std::memcpy(&bits, &single, sizeof(bits));
  switch (dtype) {
    case DType::Float32:
      return write(single);
    case DType::Float64:
      return write(static_cast<double>(value));
    case DType::BFloat16:
      return write(static_cast<std::uint16_t>(bits >> 16));
    case DType::Float16:
      return write(static_cast<std::uint16_t>(value == 0 ? 0 : (bits >> 13) - (112U << 10)));
    case DType::Int8:
    case DType::UInt8:
      return write(static_cast<std::uint8_t>(value));
    case DType::Bool:
      return write(static_cast<std::uint8_t>(value != 0));
    case DType::Int16:
      return write(static_cast<std::int16_t>(value));
    case DType::Int32:
      return write(static_cast<std::int32_t>(value));
    case DType::Int64:
      return write(static_cast<std::int64_t>(value));
  }
}

}  // namespace

BenchOperation::BenchOperation(const comm::Communicator& group, Collective op, std::size_t bytes,
                               const BenchOptions& options)
    : group_(group),
      op_(op),
      count_(bytes / comm::element_bytes(options.dtype)),
      options_(options),
      me_(static_cast<std::size_t>(group.rank())) {
  const auto ranks = static_cast<std::size_t>(group_.size());
  counts_.assign(ranks, static_cast<std::int64_t>(count_ / ranks));
  counts_.back() += static_cast<std::int64_t>(count_ % ranks);
  back_.assign(ranks, counts_[me_]);
  for (std::int64_t begin = 0; const std::int64_t count : counts_) {  // a block per share
    if (count > 0) block_starts_.push_back(begin);
    begin += count;
  }
  in_ = memory(in_owner_, bytes);
  // all_to_all: the last rank takes the rest of every other's buffer.
  out_ = memory(out_owner_, bytes + ranks * ranks * comm::element_bytes(options.dtype));
}

comm::ReduceStats* BenchOperation::statistics() {
  if (!options_.statistics) return nullptr;
  stats_ = {};
  stats_.block_starts = block_starts_;
  return &stats_;
}

std::byte* BenchOperation::memory(std::shared_ptr<std::byte>& owner, std::size_t bytes) {
  if (options_.registered) {
    owner = group_.allocate(bytes);
  } else {
    const std::size_t whole = (std::max<std::size_t>(bytes, 1) + 4095) / 4096 * 4096;
    owner = {static_cast<std::byte*>(std::aligned_alloc(4096, whole)),
             [](std::byte* p) { std::free(p); }};
  }
  std::memset(owner.get(), 0, bytes);
  return owner.get();
}

std::size_t BenchOperation::begin_of(int rank) const {
  return static_cast<std::size_t>(
      std::accumulate(counts_.begin(), counts_.begin() + rank, std::int64_t{0}));
}

void BenchOperation::rewrite() {
  if (op_ == Collective::Barrier) return;
  std::memset(in_, 1, count_ * comm::element_bytes(options_.dtype));
}

void BenchOperation::fill(int rank, std::byte* to, std::size_t first, std::size_t count) const {
  const std::size_t size = comm::element_bytes(options_.dtype);
  for (std::size_t i = 0; i < count; ++i)
    put(options_.dtype, to + i * size, value_of(rank, first + i));
}

// Elements of `got` that are not rank's values from `first` on.
std::size_t BenchOperation::differences(const std::byte* got, int rank, std::size_t first,
                                        std::size_t count) const {
  const std::size_t size = comm::element_bytes(options_.dtype);
  std::vector<std::byte> expected(size);
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < count; ++i) {
    put(options_.dtype, expected.data(), value_of(rank, first + i));
    wrong += std::memcmp(expected.data(), got + i * size, size) != 0 ? 1 : 0;
  }
  return wrong;
}

std::size_t BenchOperation::check_sum(const std::byte* got, std::size_t first,
                                      std::size_t count) const {
  const std::size_t size = comm::element_bytes(options_.dtype);
  std::vector<std::byte> expected(size);
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < count; ++i) {
    int sum = 0;
    for (int r = 0; r < group_.size(); ++r) sum += value_of(r, first + i);
    put(options_.dtype, expected.data(), sum);
    wrong += std::memcmp(expected.data(), got + i * size, size) != 0 ? 1 : 0;
  }
  return wrong;
}

std::size_t BenchOperation::verify() {
  const int me = group_.rank(), ranks = group_.size();
  const auto mine = static_cast<std::size_t>(counts_[static_cast<std::size_t>(me)]);
  const std::size_t size = comm::element_bytes(options_.dtype), begin = begin_of(me);
  const bool brings_part = op_ == Collective::AllGather || op_ == Collective::Gather;
  fill(me, in_, brings_part ? begin : 0, brings_part ? mine : count_);
  run();
  switch (op_) {
    case Collective::AllReduce:
      return check_sum(in_, 0, count_);
    case Collective::Reduce:
      return me == 0 ? check_sum(in_, 0, count_) : 0;
    case Collective::ReduceScatter:
      return check_sum(out_, begin, mine);
    case Collective::Broadcast:
      return differences(in_, 0, 0, count_);
    case Collective::Scatter:
      return differences(out_, 0, begin, mine);
    case Collective::AllGather:
    case Collective::Gather: {
      if (op_ == Collective::Gather && me != 0) return 0;
      std::size_t wrong = 0;
      for (int r = 0; r < ranks; ++r) {
        const auto share = static_cast<std::size_t>(counts_[static_cast<std::size_t>(r)]);
        wrong += differences(out_ + begin_of(r) * size, r, begin_of(r), share);
      }
      return wrong;
    }
    case Collective::AllToAll: {
      std::size_t wrong = 0;
      for (int r = 0; r < ranks; ++r) {
        wrong += differences(out_ + mine * static_cast<std::size_t>(r) * size, r, begin, mine);
      }
      return wrong;
    }
    case Collective::Send:
    case Collective::Recv:
      return differences(out_, (me + ranks - 1) % ranks, 0, count_);
    case Collective::Barrier:
      break;
  }
  return 0;
}

namespace {

class CommOperation final : public BenchOperation {
 public:
  using BenchOperation::BenchOperation;
  void run() override;
};

void CommOperation::run() {
  const DType type = options().dtype;
  const int me = group_.rank();
  const comm::Buffer in = {in_, count_, type}, out = {out_, count_, type};
  const comm::Buffer own = {out_, share(), type};
  const comm::ConstBuffer part = {in_, share(), type};
  switch (op_) {
    case Collective::AllReduce:
      return group_.all_reduce(in, options().reduce, "bench", statistics()).wait();
    case Collective::Reduce:
      return group_.reduce(in, options().reduce, 0, "bench").wait();
    case Collective::ReduceScatter:
      return group_.reduce_scatter(own, in, counts_, options().reduce, "bench", statistics())
          .wait();
    case Collective::AllGather:
      return group_.all_gather(out, part, counts_, "bench").wait();
    case Collective::Broadcast:
      return group_.broadcast(in, 0, "bench").wait();
    case Collective::Scatter:
      return group_.scatter(own, in, counts_, 0, "bench").wait();
    case Collective::Gather:
      return group_.gather(out, part, counts_, 0, "bench").wait();
    case Collective::AllToAll: {
      const comm::Buffer all = {out_, share() * counts_.size(), type};
      return group_.all_to_all(all, in, counts_, back_, "bench").wait();
    }
    case Collective::Barrier:
      return group_.barrier("bench").wait();
    case Collective::Send:
    case Collective::Recv: {
      const int ranks = group_.size();
      comm::Pending received = group_.recv(out, (me + ranks - 1) % ranks, 0, "bench");
      group_.send(in, (me + 1) % ranks, 0, "bench").wait();
      return received.wait();
    }
  }
}

}  // namespace

std::unique_ptr<BenchOperation> make_comm_operation(const comm::Communicator& group, Collective op,
                                                    std::size_t bytes,
                                                    const BenchOptions& options) {
  return std::make_unique<CommOperation>(group, op, bytes, options);
}

}  // namespace tutti::cli
