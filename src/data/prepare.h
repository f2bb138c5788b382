// Texts to a token file: the body of `tutti data prepare`.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "core/json.h"

namespace tutti::data {

struct PrepareOptions {
  std::vector<std::string> texts;    // paths; each file is one document, in this order
  std::string tokenizer = "bytes";   // a name of make_tokenizer
  std::filesystem::path vocabulary;  // folder of gpt2's files; empty: default_vocabulary()
  std::string output;                // path of the token file; replaced if it exists
  int skip_bad = 0;  // texts that may be missing, empty or unreadable without ending the command
  int threads = 0;   // 0: one per core that the process may use
  /// Called now and then, from any thread but one at a time, with the bytes encoded and all there
  /// are; may be empty.
  std::function<void(std::uint64_t done, std::uint64_t total)> progress;
};

struct PrepareReport {
  std::uint64_t documents = 0;
  std::uint64_t tokens = 0;
  std::uint64_t text_bytes = 0;
  std::vector<std::string> skipped;  // one sentence per text left out
  [[nodiscard]] double bytes_per_token() const;
};

/// Encodes the texts and writes the token file, and a copy of its tokenizer beside it: the same
/// ones whatever the number of threads. Memory does not grow with the texts. Throws
/// core::ConfigError, before anything is written, with all texts that are missing, empty or
/// unreadable if they are more than `skip_bad`, or if no text is left; also, with the place, for a
/// text that is no UTF-8 where the tokenizer needs it (with `skip_bad` that too is found before and
/// counts). core::RunError if the disk does not take the file. An old file is kept after any error.
PrepareReport prepare(const PrepareOptions& options);

/// "data/x.tokens: 42 documents, 5,057,323 tokens, 1.00 bytes per token" and a line for each text
/// left out.
std::string describe(const PrepareReport& report, const std::string& output);

core::Json to_json(const PrepareReport& report);

}  // namespace tutti::data
