// Validation, shared out among replicas.
#include "train/evaluate.h"

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
  for (std::size_t begin = 0; begin < mine.size(); begin += rows) {
    const std::size_t count = std::min<std::size_t>(rows, mine.size() - begin);
    data::MicroBatch batch = data::valid_batch(corpus, std::span(mine).subspan(begin, count));
    sum[0] += stage.forward(0, to_micro_batch(batch)).item<double>();
    sum[1] += static_cast<double>(batch.tokens);
  }
  group.all_reduce(sums, backend::ReduceOp::Sum, "validation loss").wait();
  return sum[0] / sum[1];
}

}  // namespace tutti::train
