// Validation, shared out among replicas.
#include "train/evaluate.h"

#include <algorithm>
#include <vector>

#include "data/batch.h"
#include "train/batches.h"

namespace tutti::train {

double evaluate(parallel::Stage& stage, const data::Corpus& corpus,
                std::span<const std::uint64_t> windows, int rows, backend::Group& group) {
  const at::NoGradGuard no_grad;
  const at::Tensor sums = group.allocate({2}, at::kDouble).zero_();
  auto* sum = sums.data_ptr<double>();
  std::vector<std::uint64_t> mine;
  for (std::size_t i = group.rank(); i < windows.size(); i += group.size())
    mine.push_back(windows[i]);
  // Every rank runs as often as the one with the most windows: where parameters are gathered layer
  // by layer, all of them take part in every forward. What is run once more counts nothing.
  const std::size_t most = (windows.size() + group.size() - 1) / group.size();
  for (std::size_t begin = 0; begin < most; begin += rows) {
    const bool counts = begin < mine.size();
    const std::size_t count = std::min<std::size_t>(rows, counts ? mine.size() - begin : 1);
    data::MicroBatch batch = data::valid_batch(
        corpus,
        counts ? std::span<const std::uint64_t>(mine).subspan(begin, count) : windows.first(count));
    const double loss = stage.forward(0, to_micro_batch(batch)).item<double>();
    if (!counts) continue;
    sum[0] += loss;
    sum[1] += static_cast<double>(batch.tokens);
  }
  group.all_reduce(sums, backend::ReduceOp::Sum, "validation loss").wait();
  return sum[0] / sum[1];
}

}  // namespace tutti::train
