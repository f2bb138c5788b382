// GPT-2's vocabulary as it was published: encoder.json and vocab.bpe, checked and put into order.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "data/bpe.h"

namespace tutti::data {

/// Number of GPT-2's ids: 256 bytes, 50,000 merges and <|endoftext|>, the last.
inline constexpr std::uint64_t kGpt2VocabSize = 50'257;
inline constexpr std::int64_t kEndOfText = kGpt2VocabSize - 1;
inline constexpr std::string_view kEndOfTextName = "<|endoftext|>";

/// The text of the merges, as vocab.bpe has them without its first line: "A B" and a newline each,
/// every byte written as one printable character.
/// Reads `folder`/vocab.bpe and compares it with `folder`/encoder.json. Throws core::ConfigError
/// that names the file, what is wrong with it and the cure: missing, damaged, another size, or the
/// two do not belong together.
std::string read_merges(const std::filesystem::path& folder);

/// The table of such a text. Throws std::invalid_argument with the line that is wrong.
MergeTable parse_merges(std::string_view text);

/// How GPT-2's files write a byte: itself if it is printable in Latin-1, else a letter from U+0100
/// on. In UTF-8.
std::string written(unsigned char byte);

}  // namespace tutti::data
