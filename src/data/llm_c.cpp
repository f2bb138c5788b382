// Token files as llm.c's data scripts write them, little-endian like ours.
#include "data/llm_c.h"

#include <array>
#include <cstring>

#include "core/error.h"
#include "core/units.h"
#include "data/gpt2.h"

namespace tutti::data {
namespace {

constexpr std::int32_t kGpt2Magic = 20240520;
constexpr std::int32_t kLlama3Magic = 20240801;
constexpr std::int32_t kVersion = 1;

std::int32_t number_at(std::span<const std::byte> bytes, std::size_t index) {
  std::int32_t number = 0;
  std::memcpy(&number, bytes.data() + index * sizeof number, sizeof number);
  return number;
}

[[noreturn]] void refuse(const std::filesystem::path& path, std::string_view why,
                         std::string_view cure) {
  throw core::ConfigError(
      fmt::format("{} is a token file of llm.c, but {}. {}", path.string(), why, cure));
}

}  // namespace

bool is_llm_c(std::span<const std::byte> bytes) {
  if (bytes.size() < sizeof(std::int32_t)) return false;
  const std::int32_t magic = number_at(bytes, 0);
  return magic == kGpt2Magic || magic == kLlama3Magic;
}

TokenHeader check_llm_c_header(const std::filesystem::path& path,
                               std::span<const std::byte> bytes) {
  constexpr std::string_view kWrite = "Write it again with llm.c's script for GPT-2.";
  if (number_at(bytes, 0) == kLlama3Magic) {
    refuse(path, "of Llama 3's tokens (its mark is 20240801), and tutti reads those of GPT-2",
           "Give one whose mark is 20240520, or the text to `tutti data prepare`.");
  }
  if (bytes.size() < kLlmCHeaderBytes) {
    refuse(path,
           fmt::format("has {} bytes and its header alone {}: it was cut short", bytes.size(),
                       kLlmCHeaderBytes),
           kWrite);
  }
  if (const std::int32_t version = number_at(bytes, 1); version != kVersion) {
    refuse(path, fmt::format("the format version is {}, expected {}", version, kVersion), kWrite);
  }
  const std::int32_t tokens = number_at(bytes, 2);
  if (tokens < 1) {
    refuse(path, fmt::format("the number of tokens is {}, expected at least 1", tokens), kWrite);
  }
  constexpr int kBytesPerToken = 2;
  const std::uint64_t expected =
      kLlmCHeaderBytes + static_cast<std::uint64_t>(tokens) * kBytesPerToken;
  if (bytes.size() != expected) {
    refuse(
        path,
        fmt::format("the file's size in bytes is {}, expected {} for {} tokens: it was cut short "
                    "or its header is damaged",
                    bytes.size(), expected, core::format_count(static_cast<std::uint64_t>(tokens))),
        kWrite);
  }
  return {.tokenizer = gpt2_id(),
          .bytes_per_token = kBytesPerToken,
          .num_tokens = static_cast<std::uint64_t>(tokens),
          .num_documents = 1,
          .from_llm_c = true};
}

}  // namespace tutti::data
