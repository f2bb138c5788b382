// Texts to ids on several threads, in order and in bounded memory.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "data/token_file.h"
#include "data/tokenizer.h"

namespace tutti::data {

struct EncodeOptions {
  int threads = 1;  // at least 1
  /// Called with the bytes encoded so far, from any of the threads but one at a time; may be empty.
  std::function<void(std::uint64_t)> progress;
};

/// Encodes the texts, each one document, and appends them to `writer`. The ids do not depend on the
/// number of threads: a text is cut into chunks of about a mebibyte where Tokenizer::find_cut
/// allows it, and their ids are written in the order of the chunks. Memory: a chunk of text and its
/// ids per thread. A chunk that cannot be cut may be as long as the text; then its ids are written
/// as they come, once it is its turn.
/// Returns the bytes read. Throws core::ConfigError that names the text and the byte where one is
/// not what the tokenizer reads, core::RunError if a text cannot be read or the disk takes no more:
/// always the first error in the order of the texts.
std::uint64_t encode_files(const Tokenizer& tokenizer, const std::vector<std::string>& texts,
                           const EncodeOptions& options, TokenWriter& writer);

/// Where the file at `path` stops being UTF-8; empty if it does not. Throws core::RunError if it
/// cannot be read.
std::optional<std::uint64_t> find_invalid_utf8_in(const std::string& path);

}  // namespace tutti::data
