// Reading token files: every field is checked before anything relies on it.
#include "data/token_file.h"

#include <algorithm>
#include <stdexcept>
#include <system_error>
#include <vector>

#include "core/error.h"
#include "core/hash.h"
#include "core/units.h"
#include "data/llm_c.h"
#include "data/token_format.h"

namespace tutti::data {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrepareAgain = "Make it again with `tutti data prepare`.";

/// Throws the ConfigError of one wrong field.
template <class Expected, class Found>
[[noreturn]] void refuse(const fs::path& path, std::string_view field, const Expected& expected,
                         const Found& found, std::string_view cure = kPrepareAgain) {
  throw core::ConfigError(
      fmt::format("{}: {} is {}, expected {}. {}", path.string(), field, found, expected, cure));
}

core::MappedFile map(const fs::path& path) {
  std::error_code error;
  const auto status = fs::status(path, error);
  if (!fs::exists(status)) {
    throw core::ConfigError(fmt::format(
        "{} does not exist. Make it with `tutti data prepare TEXT... --tokenizer bytes -o {}`.",
        path.string(), path.string()));
  }
  if (!fs::is_regular_file(status)) {
    throw core::ConfigError(
        fmt::format("{} is no regular file, so it is no token file. Name one made by `tutti data "
                    "prepare`.",
                    path.string()));
  }
  const auto size = fs::file_size(path, error);
  if (!error && size < kTokenHeaderBytes) {
    refuse(path, "the file's size in bytes",
           fmt::format("at least {} (the header)", kTokenHeaderBytes), size,
           "It was cut short or is no token file. Make it with `tutti data prepare`.");
  }
  try {
    return core::MappedFile(path);
  } catch (const core::RunError& reason) {
    throw core::ConfigError(fmt::format("{} cannot be read: {}", path.string(), reason.what()));
  }
}

/// The name up to its first zero byte; refuses other than printable ASCII and anything behind the
/// zero.
std::string name_of(const fs::path& path, const format::Raw& raw) {
  const auto end = std::find(raw.name.begin(), raw.name.end(), '\0');
  const bool printable =
      std::all_of(raw.name.begin(), end, [](char c) { return c > ' ' && c <= '~'; });
  const bool padded = std::all_of(end, raw.name.end(), [](char c) { return c == '\0'; });
  if (end == raw.name.begin() || end == raw.name.end() || !printable || !padded) {
    refuse(path, "the tokenizer's name", "1 to 39 printable characters, then zero bytes",
           "damaged");
  }
  return {raw.name.begin(), end};
}

void check_size(const fs::path& path, const format::Raw& raw, std::uint64_t size) {
  // Counts that could overflow the sum are larger than the file anyway.
  const bool possible = raw.num_tokens <= size && raw.num_documents <= size;
  const std::uint64_t expected = kTokenHeaderBytes + raw.num_tokens * raw.bytes_per_token +
                                 raw.num_documents * sizeof(std::uint64_t);
  if (possible && expected == size) return;
  refuse(
      path, "the file's size in bytes",
      fmt::format("{} for {} tokens of {} bytes in {} documents",
                  possible ? std::to_string(expected) : "far more",
                  core::format_count(raw.num_tokens), raw.bytes_per_token,
                  core::format_count(raw.num_documents)),
      size,
      "The file was cut short or its header is damaged. Make it again with `tutti data prepare`.");
}

TokenHeader check_header(const fs::path& path, std::span<const std::byte> bytes) {
  if (is_llm_c(bytes)) return check_llm_c_header(path, bytes);
  format::Raw raw;
  std::memcpy(&raw, bytes.data(), sizeof raw);
  if (raw.magic != format::kMagic) {
    refuse(path, "the beginning", "the token file's mark TUTTITOK", "something else",
           "This is no token file: make one from a text with `tutti data prepare`.");
  }
  if (raw.version != kTokenFormatVersion) {
    refuse(path, "the format version", kTokenFormatVersion, raw.version,
           "Another version of tutti wrote it: make it again with `tutti data prepare`.");
  }
  if (raw.vocab_size < 1 || raw.vocab_size > std::uint64_t{1} << 32) {
    refuse(path, "the vocabulary size", "1 to 4294967296", raw.vocab_size);
  }
  if (const int expected = bytes_per_token(raw.vocab_size);
      raw.bytes_per_token != static_cast<std::uint32_t>(expected)) {
    refuse(path, "the number of bytes per token",
           fmt::format("{} for a vocabulary of {}", expected, raw.vocab_size), raw.bytes_per_token);
  }
  const std::string name = name_of(path, raw);
  if (std::ranges::any_of(raw.zero, [](char c) { return c != 0; })) {
    refuse(path, "the unused part of the header (bytes 96 to 127)", "zero", "not zero");
  }
  check_size(path, raw, bytes.size());
  if (raw.num_documents < 1)
    refuse(path, "the number of documents", "at least 1", raw.num_documents);
  return {.tokenizer = {.name = name, .hash = raw.tokenizer_hash, .vocab_size = raw.vocab_size},
          .bytes_per_token = static_cast<int>(raw.bytes_per_token),
          .num_tokens = raw.num_tokens,
          .num_documents = raw.num_documents,
          .body_hash = raw.body_hash};
}

std::uint64_t start_of(std::span<const std::byte> bytes, const TokenHeader& header,
                       std::uint64_t document) {
  const std::size_t offset = kTokenHeaderBytes +
                             header.num_tokens * static_cast<std::size_t>(header.bytes_per_token) +
                             document * sizeof(std::uint64_t);
  std::uint64_t start = 0;
  std::memcpy(&start, bytes.data() + offset, sizeof start);
  return start;
}

void check_documents(const fs::path& path, std::span<const std::byte> bytes,
                     const TokenHeader& header) {
  std::uint64_t least = 0;
  for (std::uint64_t document = 0; document < header.num_documents; ++document) {
    const std::uint64_t start = start_of(bytes, header, document);
    const bool in_order = document == 0 ? start == 0 : start >= least;
    if (!in_order || start >= header.num_tokens) {
      refuse(path, fmt::format("the first token of document {}", document),
             document == 0 ? "0 (and the document not empty)"
                           : fmt::format("{} to {}", least, header.num_tokens - 1),
             start, "The file is damaged. Make it again with `tutti data prepare`.");
    }
    least = start + 1;
  }
}

/// Tokens of type Id at `from`, widened. Returns the largest.
template <class Id>
std::int64_t widen(const std::byte* from, std::span<std::int64_t> out) {
  std::int64_t largest = 0;
  for (std::size_t i = 0; i < out.size(); ++i) {
    Id id;
    std::memcpy(&id, from + i * sizeof(Id), sizeof(Id));
    out[i] = static_cast<std::int64_t>(id);
    largest = std::max(largest, out[i]);
  }
  return largest;
}

}  // namespace

int bytes_per_token(std::uint64_t vocab_size) {
  return vocab_size <= 1u << 8 ? 1 : vocab_size <= 1u << 16 ? 2 : 4;
}

TokenFile::TokenFile(const fs::path& path)
    : path_(path), file_(map(path)), header_(check_header(path, file_.bytes())) {
  if (!header_.from_llm_c) check_documents(path_, file_.bytes(), header_);
}

std::size_t TokenFile::body_offset() const {
  return header_.from_llm_c ? kLlmCHeaderBytes : kTokenHeaderBytes;
}

TokenRange TokenFile::document(std::uint64_t index) const {
  if (index >= num_documents()) {
    throw std::invalid_argument(
        fmt::format("document {} of {} in {}", index, num_documents(), path_.string()));
  }
  if (header_.from_llm_c) return {0, num_tokens()};
  const bool last = index + 1 == num_documents();
  return {start_of(file_.bytes(), header_, index),
          last ? num_tokens() : start_of(file_.bytes(), header_, index + 1)};
}

void TokenFile::copy(std::uint64_t first, std::span<std::int64_t> out) const {
  if (first > num_tokens() || out.size() > num_tokens() - first) {
    throw std::invalid_argument(fmt::format("tokens {} to {} of {} in {}", first,
                                            first + out.size(), num_tokens(), path_.string()));
  }
  const auto width = static_cast<std::size_t>(header_.bytes_per_token);
  const std::byte* from = file_.bytes().data() + body_offset() + first * width;
  const std::int64_t largest = width == 1   ? widen<std::uint8_t>(from, out)
                               : width == 2 ? widen<std::uint16_t>(from, out)
                                            : widen<std::uint32_t>(from, out);
  if (static_cast<std::uint64_t>(largest) >= header_.tokenizer.vocab_size) {
    throw core::RunError(fmt::format(
        "{}: token {} among tokens {} to {} is outside the vocabulary of {}: the file is "
        "damaged. {}",
        path_.string(), largest, first, first + out.size(), header_.tokenizer.vocab_size,
        kPrepareAgain));
  }
}

void TokenFile::verify_body() const {
  if (header_.from_llm_c) return;
  const std::uint64_t found = core::xxh3(file_.bytes().subspan(kTokenHeaderBytes));
  if (found != header_.body_hash) {
    refuse(path_, "the hash of the tokens", core::to_hex(header_.body_hash), core::to_hex(found),
           "The file was changed after it was made. Make it again with `tutti data prepare`.");
  }
}

}  // namespace tutti::data
