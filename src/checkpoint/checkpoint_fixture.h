// What the checkpoint tests share: a folder that goes away, tensors with values that name their
// place, cut over ranks.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "checkpoint/reader.h"
#include "checkpoint/writer.h"
#include "core/temporary_folder.h"

namespace tutti::checkpoint::fixture {

namespace fs = std::filesystem;

/// Two tensors whose values are made from (step, tensor, element), so that no two elements are
/// equal.
struct Model {
  std::vector<float> weight;   // "w", 5 x 7
  std::vector<double> moment;  // "exp_avg/w", 5 x 7
  std::vector<float> scale;    // "s", 3

  explicit Model(std::int64_t step) : weight(35), moment(35), scale(3) {
    for (std::size_t i = 0; i < weight.size(); ++i) {
      weight[i] = static_cast<float>(step) + static_cast<float>(i) / 64;
      moment[i] = -static_cast<double>(step) - static_cast<double>(i) / 1024;
    }
    for (std::size_t i = 0; i < scale.size(); ++i)
      scale[i] = static_cast<float>(1000 * step + 7 * i);
  }

  /// The part of one of `ranks` ranks: flat ranges that begin and end inside tensors.
  [[nodiscard]] std::vector<OwnedPiece> owned(int rank, int ranks) const {
    std::vector<OwnedPiece> pieces;
    const auto add = [&](const char* name, const char* dtype, std::vector<std::int64_t> shape,
                         const auto& values) {
      const std::size_t begin = values.size() * static_cast<std::size_t>(rank) / ranks;
      const std::size_t end = values.size() * static_cast<std::size_t>(rank + 1) / ranks;
      const std::span part = std::span(values).subspan(begin, end - begin);
      pieces.push_back({name,
                        dtype,
                        std::move(shape),
                        {static_cast<std::int64_t>(begin), static_cast<std::int64_t>(end - begin)},
                        std::as_bytes(part)});
    };
    add("w", "F32", {5, 7}, weight);
    add("exp_avg/w", "F64", {5, 7}, moment);
    add("s", "F32", {3}, scale);
    return pieces;
  }
};

inline Index index_of(std::int64_t step, std::optional<double> valid_loss = {}) {
  return {.tutti_version = "0.1.0",
          .step = step,
          .seed = 18446744073709551615ULL,  // does not fit a double: JSON must keep it whole
          .samples = static_cast<std::uint64_t>(step) * 12,
          .valid_loss = valid_loss,
          .model = {{"kind", "gpt2"}, {"layers", 2}, {"dropout", 0.0}}};
}

inline fs::path save(const fs::path& checkpoints, std::int64_t step, int ranks,
                     std::optional<double> valid_loss = {}) {
  const Model model(step);
  std::vector<std::string> texts;
  for (int rank = 0; rank < ranks; ++rank) {
    texts.push_back(
        write_rank_file(temporary_folder(checkpoints, step), rank, model.owned(rank, ranks)));
  }
  return commit(checkpoints, index_of(step, valid_loss), texts);
}

/// Every element is what Model(step) says; throws whatever the reader throws.
inline void expect_model(const fs::path& checkpoint, std::int64_t step) {
  Reader reader(checkpoint);
  const Model model(step);
  const auto widened = [](const std::vector<float>& values) {
    return std::vector<double>(values.begin(), values.end());
  };
  EXPECT_EQ(reader.read_doubles("w"), widened(model.weight));
  EXPECT_EQ(reader.read_doubles("exp_avg/w"), model.moment);
  EXPECT_EQ(reader.read_doubles("s"), widened(model.scale));
}

class CheckpointFolder : public testing::Test {
 protected:
  /// Names of what is in the folder of checkpoints, sorted.
  [[nodiscard]] std::vector<std::string> names() const {
    std::vector<std::string> found;
    for (const auto& entry : fs::directory_iterator(folder_)) {
      found.push_back(entry.path().filename().string());
    }
    std::sort(found.begin(), found.end());
    return found;
  }

  core::TemporaryFolder temporary_{"ckpt"};
  fs::path folder_ = temporary_.path() / "checkpoints";
};

}  // namespace tutti::checkpoint::fixture
