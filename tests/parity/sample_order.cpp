// Prints which sample stands at each place of a training, for references that see the same batches.
//   sample_order SAMPLES SEED COUNT
#include <fmt/format.h>

#include <cstdlib>

#include "data/sampler.h"

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  const std::uint64_t samples = std::strtoull(argv[1], nullptr, 10);
  const std::uint64_t seed = std::strtoull(argv[2], nullptr, 10);
  const std::uint64_t count = std::strtoull(argv[3], nullptr, 10);
  for (std::uint64_t position = 0; position < count; ++position)
    fmt::print("{}\n", tutti::data::sample_at(position, samples, seed));
}
