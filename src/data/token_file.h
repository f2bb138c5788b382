// Token files: the ids of many documents in one file that is mapped, never read whole.
//
// All numbers are little-endian and unsigned. The header has 128 bytes:
//
//   offset  bytes  what
//        0      8  magic: "TUTTITOK"
//        8      4  format version: 1
//       12      4  bytes per token: 1, 2 or 4, the smallest that holds every id of the vocabulary
//       16      8  vocabulary size: 1 .. 2^32; every token is below it
//       24      8  tokens in the file: T, at least one per document
//       32      8  documents in the file: D, at least 1
//       40      8  hash of the tokenizer (Tokenizer::hash)
//       48      8  xxh3 of the body, which is everything behind the header
//       56     40  name of the tokenizer in ASCII, padded with zero bytes (at least one)
//       96     32  zero
//
// The body: T tokens, then the places of the D documents' first tokens (8 bytes each, not aligned):
// the first is 0, each later one is larger. The file ends there: its size is 128 + T * (bytes per
// token) + 8 * D.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/file.h"

namespace tutti::data {

inline constexpr std::size_t kTokenHeaderBytes = 128;
inline constexpr std::uint32_t kTokenFormatVersion = 1;

/// Which tokenizer made the ids.
struct TokenizerId {
  std::string name;  // 1 .. 39 printable ASCII characters
  std::uint64_t hash = 0;
  std::uint64_t vocab_size = 0;
  friend bool operator==(const TokenizerId&, const TokenizerId&) = default;
};

struct TokenHeader {
  TokenizerId tokenizer;
  int bytes_per_token = 1;
  std::uint64_t num_tokens = 0;
  std::uint64_t num_documents = 0;
  std::uint64_t body_hash = 0;  // 0 in llm.c's files
  bool from_llm_c = false;
};

/// Places [begin, end) of tokens in a file.
struct TokenRange {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  [[nodiscard]] std::uint64_t size() const { return end - begin; }
  friend bool operator==(const TokenRange&, const TokenRange&) = default;
};

/// A mapped token file. Const members may be called by several threads.
class TokenFile {
 public:
  /// Checks every header field, the file's size and the order of the documents, but does not read
  /// the tokens. Throws core::ConfigError naming path, field, expected and found, with the cure.
  explicit TokenFile(const std::filesystem::path& path);

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  [[nodiscard]] const TokenHeader& header() const { return header_; }
  [[nodiscard]] std::uint64_t num_tokens() const { return header_.num_tokens; }
  [[nodiscard]] std::uint64_t num_documents() const { return header_.num_documents; }

  /// Where document `index` lies. Throws std::invalid_argument unless index < num_documents().
  [[nodiscard]] TokenRange document(std::uint64_t index) const;

  /// Copies tokens [first, first + out.size()). Throws std::invalid_argument if they reach beyond
  /// the end, core::RunError if one of them is outside the vocabulary (the file was damaged).
  void copy(std::uint64_t first, std::span<std::int64_t> out) const;

  /// Reads everything: throws core::ConfigError if the body does not have the hash that the header
  /// states. Of llm.c's files nothing can be said.
  void verify_body() const;

 private:
  [[nodiscard]] std::size_t body_offset() const;

  std::filesystem::path path_;
  core::MappedFile file_;
  TokenHeader header_;
};

/// Writes a token file piece by piece, into a temporary file beside `path` that finish() renames: a
/// crash leaves the old file or none. Memory: a buffer of 1 MiB and 8 bytes per document. Without
/// finish() the temporary file is removed.
class TokenWriter {
 public:
  /// Throws core::RunError if the temporary file cannot be made, std::invalid_argument if the
  /// tokenizer has no name that fits the header or no vocabulary of 1 .. 2^32.
  TokenWriter(const std::filesystem::path& path, const TokenizerId& tokenizer);
  TokenWriter(const TokenWriter&) = delete;
  TokenWriter& operator=(const TokenWriter&) = delete;
  ~TokenWriter();

  /// The next append() belongs to a new document. Throws std::invalid_argument if the last document
  /// is empty.
  void begin_document();

  /// Adds tokens to the current document. Throws std::invalid_argument before the first
  /// begin_document() and for an id outside the vocabulary, core::RunError if the disk does not
  /// take them.
  void append(std::span<const std::uint32_t> tokens);

  /// Writes documents and header, fsyncs, renames. Returns what the file says. Throws
  /// std::invalid_argument if there is no document or the last one is empty.
  TokenHeader finish();

 private:
  class Output;
  std::unique_ptr<Output> output_;
  TokenHeader header_;
  std::vector<std::uint64_t> starts_;
};

/// 1, 2 or 4.
int bytes_per_token(std::uint64_t vocab_size);

}  // namespace tutti::data
