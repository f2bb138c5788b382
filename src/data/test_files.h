// Token files and folders for tests.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <numeric>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "data/token_file.h"

namespace tutti::data::testing_files {

/// A test with a folder of its own, removed at its end.
class InFolder : public ::testing::Test {
 protected:
  InFolder() {
    const auto* info = ::testing::UnitTest::GetInstance()->current_test_info();
    folder_ = std::filesystem::path(::testing::TempDir()) /
              (std::string(info->test_suite_name()) + "." + info->name() + "." +
               std::to_string(::getpid()));
    std::filesystem::create_directories(folder_);
  }
  ~InFolder() override { std::filesystem::remove_all(folder_); }

  [[nodiscard]] std::string path(std::string_view name) const { return (folder_ / name).string(); }

  [[nodiscard]] std::size_t files() const {
    return static_cast<std::size_t>(
        std::distance(std::filesystem::directory_iterator(folder_), {}));
  }

 private:
  std::filesystem::path folder_;
};

inline std::string read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline void write(const std::string& path, std::string_view content) {
  std::ofstream(path, std::ios::binary) << content;
}

using Documents = std::vector<std::vector<std::uint32_t>>;

/// Writes these documents; the vocabulary decides the bytes per token.
inline TokenHeader write_tokens(const std::string& path, const Documents& documents,
                                std::uint64_t vocab_size = 65536,
                                const std::string& tokenizer = "test") {
  TokenWriter writer(path, {.name = tokenizer, .hash = 77, .vocab_size = vocab_size});
  for (const auto& document : documents) {
    writer.begin_document();
    writer.append(document);
  }
  return writer.finish();
}

/// Documents of these lengths whose tokens count on from `first` through all of them.
inline Documents counting(const std::vector<std::size_t>& lengths, std::uint32_t first = 0) {
  Documents documents;
  for (const std::size_t length : lengths) {
    documents.emplace_back(length);
    std::iota(documents.back().begin(), documents.back().end(), first);
    first += static_cast<std::uint32_t>(length);
  }
  return documents;
}

/// What `body` throws as an Error, or "nothing".
template <class Error>
std::string error_of(const auto& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing";
}

}  // namespace tutti::data::testing_files
