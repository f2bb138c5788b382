// Writing token files: body first, header last, then the rename that makes them visible.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <stdexcept>

#include "core/error.h"
#include "core/fd.h"
#include "core/hash.h"
#include "core/units.h"
#include "data/token_file.h"
#include "data/token_format.h"

namespace tutti::data {

namespace fs = std::filesystem;

/// The temporary file: buffered writes that are hashed on their way.
class TokenWriter::Output {
 public:
  explicit Output(const fs::path& path) : path_(path), temporary_(path) {
    temporary_ += fmt::format(".{}.tmp", ::getpid());
    fd_ = core::Fd(::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
    if (!fd_) core::throw_errno(fmt::format("open of {}", temporary_.string()));
    buffer_.reserve(kBufferBytes);
  }
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;
  ~Output() {
    if (!renamed_) ::unlink(temporary_.c_str());
  }

  template <class Number>
  void put(Number number) {
    const auto* bytes = reinterpret_cast<const std::byte*>(&number);
    buffer_.insert(buffer_.end(), bytes, bytes + sizeof number);
    if (buffer_.size() >= kBufferBytes) flush();
  }

  /// Hash of everything that was put.
  std::uint64_t end_of_body() {
    flush();
    return hash_.digest();
  }

  void publish(const format::Raw& header) {
    write_at(0, std::as_bytes(std::span(&header, 1)));
    if (::fsync(fd_.get()) != 0) core::throw_errno(fmt::format("fsync of {}", temporary_.string()));
    if (::close(fd_.release()) != 0)
      core::throw_errno(fmt::format("close of {}", temporary_.string()));
    if (::rename(temporary_.c_str(), path_.c_str()) != 0) {
      core::throw_errno(fmt::format("rename of {} to {}", temporary_.string(), path_.string()));
    }
    renamed_ = true;
    core::sync_path(path_.has_parent_path() ? path_.parent_path() : fs::path("."));
  }

 private:
  static constexpr std::size_t kBufferBytes = std::size_t{1} << 20;

  void flush() {
    hash_.update(buffer_);
    write_at(offset_, buffer_);
    offset_ += static_cast<off_t>(buffer_.size());
    buffer_.clear();
  }

  void write_at(off_t offset, std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const ssize_t wrote = ::pwrite(fd_.get(), bytes.data(), bytes.size(), offset);
      if (wrote < 0 && errno == EINTR) continue;
      if (wrote < 0) {
        core::throw_errno(fmt::format("write of {} to {}", core::format_bytes(bytes.size()),
                                      temporary_.string()));
      }
      bytes = bytes.subspan(static_cast<std::size_t>(wrote));
      offset += wrote;
    }
  }

  fs::path path_, temporary_;
  core::Fd fd_;
  off_t offset_ = kTokenHeaderBytes;
  std::vector<std::byte> buffer_;
  core::Xxh3 hash_;
  bool renamed_ = false;
};

TokenWriter::TokenWriter(const fs::path& path, const TokenizerId& tokenizer) {
  const bool printable =
      std::ranges::all_of(tokenizer.name, [](char c) { return c > ' ' && c <= '~'; });
  if (tokenizer.name.empty() || tokenizer.name.size() >= format::kNameBytes || !printable) {
    throw std::invalid_argument(
        fmt::format("\"{}\" as a tokenizer's name: 1 to 39 printable characters", tokenizer.name));
  }
  if (tokenizer.vocab_size < 1 || tokenizer.vocab_size > std::uint64_t{1} << 32) {
    throw std::invalid_argument(fmt::format("a vocabulary of {}: 1 to 2^32", tokenizer.vocab_size));
  }
  header_.tokenizer = tokenizer;
  header_.bytes_per_token = bytes_per_token(tokenizer.vocab_size);
  output_ = std::make_unique<Output>(path);
}

TokenWriter::~TokenWriter() = default;

void TokenWriter::begin_document() {
  if (!starts_.empty() && starts_.back() == header_.num_tokens) {
    throw std::invalid_argument("the document before this one is empty");
  }
  starts_.push_back(header_.num_tokens);
}

void TokenWriter::append(std::span<const std::uint32_t> tokens) {
  if (starts_.empty()) throw std::invalid_argument("append() before the first begin_document()");
  for (const std::uint32_t token : tokens) {
    if (token >= header_.tokenizer.vocab_size) {
      throw std::invalid_argument(
          fmt::format("token {} of a vocabulary of {}", token, header_.tokenizer.vocab_size));
    }
    switch (header_.bytes_per_token) {
      case 1:
        output_->put(static_cast<std::uint8_t>(token));
        break;
      case 2:
        output_->put(static_cast<std::uint16_t>(token));
        break;
      default:
        output_->put(token);
    }
  }
  header_.num_tokens += tokens.size();
}

TokenHeader TokenWriter::finish() {
  if (starts_.empty() || starts_.back() == header_.num_tokens) {
    throw std::invalid_argument("a token file without a document, or with an empty one at its end");
  }
  for (const std::uint64_t start : starts_) output_->put(start);
  header_.num_documents = starts_.size();
  header_.body_hash = output_->end_of_body();
  format::Raw raw{.bytes_per_token = static_cast<std::uint32_t>(header_.bytes_per_token),
                  .vocab_size = header_.tokenizer.vocab_size,
                  .num_tokens = header_.num_tokens,
                  .num_documents = header_.num_documents,
                  .tokenizer_hash = header_.tokenizer.hash,
                  .body_hash = header_.body_hash};
  std::ranges::copy(header_.tokenizer.name, raw.name.begin());
  output_->publish(raw);
  return header_;
}

}  // namespace tutti::data
