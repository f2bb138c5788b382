// Texts to a token file: the body of `tutti data prepare`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/json.h"

namespace tutti::data {

struct PrepareOptions {
  std::vector<std::string> texts;   // paths; each file is one document, in this order
  std::string tokenizer = "bytes";  // a name of make_tokenizer
  std::string output;               // path of the token file; replaced if it exists
  int skip_bad = 0;  // texts that may be missing, empty or unreadable without ending the command
};

struct PrepareReport {
  std::uint64_t documents = 0;
  std::uint64_t tokens = 0;
  std::uint64_t text_bytes = 0;
  std::vector<std::string> skipped;  // one sentence per text left out
  [[nodiscard]] double bytes_per_token() const;
};

/// Encodes the texts, one after another, and writes the token file; memory does not grow with the
/// texts. Throws core::ConfigError, before anything is written, with all texts that are missing,
/// empty or unreadable if they are more than `skip_bad`, or if no text is left; core::RunError if
/// the disk does not take the file (an old one is kept).
PrepareReport prepare(const PrepareOptions& options);

/// "data/x.tokens: 42 documents, 5,057,323 tokens, 1.00 bytes per token" and a line for each text
/// left out.
std::string describe(const PrepareReport& report, const std::string& output);

core::Json to_json(const PrepareReport& report);

}  // namespace tutti::data
