// The ids of GPT-2 follow from the order of its merges, so encoder.json only has to agree.
#include "data/vocabulary.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <unordered_map>

#include "core/error.h"
#include "core/file.h"
#include "data/unicode.h"

namespace tutti::data {
namespace {

namespace fs = std::filesystem;

constexpr const char* kMergesFile = "vocab.bpe";
constexpr const char* kIdsFile = "encoder.json";
constexpr std::size_t kNumMerges = kGpt2VocabSize - 1 - 256;

bool is_printable(int byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

/// The 256 bytes in the order of their ids: printable ones first.
std::array<unsigned char, 256> bytes_in_order() {
  std::array<unsigned char, 256> order;
  for (int byte = 0; byte < 256; ++byte) {
    order[static_cast<std::size_t>(byte)] = static_cast<unsigned char>(byte);
  }
  std::stable_partition(order.begin(), order.end(), is_printable);
  return order;
}

[[noreturn]] void refuse(const fs::path& path, std::string_view why) {
  throw core::ConfigError(
      fmt::format("{}: {}. GPT-2's vocabulary is needed as it was published: scripts/bootstrap.sh "
                  "puts it into .deps/gpt2, or name another folder with encoder.json and vocab.bpe "
                  "by --vocabulary.",
                  path.string(), why));
}

std::string read(const fs::path& path) {
  try {
    return core::read_file(path);
  } catch (const core::RunError& error) {
    refuse(path, error.what());
  }
}

/// Refuses unless encoder.json gives the ids that follow from the merges.
void check_ids(const fs::path& path, const MergeTable& merges) {
  nlohmann::json ids;  // not core::Json, which keeps the order and so looks names up one by one
  try {
    ids = nlohmann::json::parse(read(path));
  } catch (const nlohmann::json::exception& error) {
    refuse(path, fmt::format("is damaged, no JSON ({})", error.what()));
  }
  if (!ids.is_object()) refuse(path, "is damaged, no JSON object of tokens and their ids");
  if (ids.size() != kGpt2VocabSize) {
    refuse(path, fmt::format("has {} tokens, GPT-2 has {}", ids.size(), kGpt2VocabSize));
  }
  const auto check = [&](const std::string& token, std::uint64_t id) {
    const auto found = ids.find(token);
    if (found == ids.end()) {
      refuse(path, fmt::format("the token {} (id {}) of {} is missing", token, id, kMergesFile));
    }
    if (!found->is_number_unsigned() || found->get<std::uint64_t>() != id) {
      refuse(path, fmt::format("the token {} has the id {}, by {} it is {}", token, found->dump(),
                               kMergesFile, id));
    }
  };
  for (std::uint64_t id = 0; id < merges.num_ids(); ++id) {
    std::string token;
    for (const char byte : merges.bytes(static_cast<TokenId>(id))) {
      token += written(static_cast<unsigned char>(byte));
    }
    check(token, id);
  }
  check(std::string(kEndOfTextName), merges.num_ids());
}

}  // namespace

std::string written(unsigned char byte) {
  char32_t code = byte;
  if (!is_printable(byte)) {  // the n-th of those, from 0, is U+0100 + n
    code = 0x100;
    for (int other = 0; other < byte; ++other) code += is_printable(other) ? 0 : 1;
  }
  if (code < 0x80) return {static_cast<char>(code)};
  return {static_cast<char>(0xC0 | code >> 6), static_cast<char>(0x80 | (code & 0x3F))};
}

MergeTable parse_merges(std::string_view text) {
  std::unordered_map<std::string, TokenId> ids;  // by their written form
  std::array<TokenId, 256> byte_ids;
  for (const unsigned char byte : bytes_in_order()) {
    byte_ids[byte] = static_cast<TokenId>(ids.size());
    ids.emplace(written(byte), byte_ids[byte]);
  }
  std::vector<std::pair<TokenId, TokenId>> merges;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    const std::size_t space = line.find(' ');
    const auto fail = [&](std::string_view why) {
      throw std::invalid_argument(
          fmt::format("merge {} (\"{}\") {}", merges.size() + 1, line, why));
    };
    if (end == std::string_view::npos) fail("is cut short");
    if (space == std::string_view::npos) fail("is not two tokens with a space between them");
    std::string left(line.substr(0, space));
    const std::string right(line.substr(space + 1));
    const auto left_id = ids.find(left);
    const auto right_id = ids.find(right);
    if (left_id == ids.end() || right_id == ids.end()) fail("joins what no line before has made");
    merges.emplace_back(left_id->second, right_id->second);
    if (!ids.emplace(left += right, static_cast<TokenId>(ids.size())).second) {
      fail("makes a token that is there already");
    }
    if (ids.size() > 65536) fail("is one too many");
    text.remove_prefix(end + 1);
  }
  return {byte_ids, merges};
}

std::string read_merges(const fs::path& folder) {
  const fs::path path = folder / kMergesFile;
  std::string text = read(path);
  if (!text.starts_with("#version: 0.2\n")) refuse(path, "does not begin with \"#version: 0.2\"");
  text.erase(0, text.find('\n') + 1);
  const auto lines = static_cast<std::size_t>(std::ranges::count(text, '\n'));
  std::optional<MergeTable> merges;
  try {
    merges = parse_merges(text);
  } catch (const std::invalid_argument& error) {
    refuse(path, fmt::format("is damaged: {}", error.what()));
  }
  if (lines != kNumMerges) {
    refuse(path, fmt::format("has {} merges, GPT-2 has {}", lines, kNumMerges));
  }
  check_ids(folder / kIdsFile, *merges);
  return text;
}

}  // namespace tutti::data
