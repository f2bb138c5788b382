// Files read, mapped and written so that a crash or a full disk never leaves half of one.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "core/fd.h"

namespace tutti::core {

/// The whole file. Throws RunError with the path and the reason.
std::string read_file(const std::filesystem::path& path);

/// Writes a temporary file beside `path`, fsyncs it, renames it over `path` and fsyncs the folder:
/// readers see the old content or the new one. Throws RunError (with the free space if the disk is
/// full); the old file is then intact.
void write_file_atomically(const std::filesystem::path& path, std::string_view content);

/// fsync of a file or folder. Throws RunError.
void sync_path(const std::filesystem::path& path);

/// A new file (or a new content of an old one), written from front to back. Nothing is promised
/// until finish() returns.
class OutputFile {
 public:
  explicit OutputFile(const std::filesystem::path& path);
  /// Throws RunError with the path, the bytes wanted and, if the disk is full, the bytes free.
  void write(std::span<const std::byte> bytes);
  /// fsync and close.
  void finish();

 private:
  Fd fd_;
  std::filesystem::path path_;
};

/// A file opened for appending lines (metrics.jsonl, logs): each line is one write.
class LineFile {
 public:
  explicit LineFile(const std::filesystem::path& path);
  void write(std::string_view line);  // without the newline

 private:
  Fd fd_;
  std::filesystem::path path_;
};

/// A file mapped read-only for as long as the object lives.
class MappedFile {
 public:
  explicit MappedFile(const std::filesystem::path& path);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile other) noexcept;
  ~MappedFile();
  [[nodiscard]] std::span<const std::byte> bytes() const { return bytes_; }

 private:
  std::span<const std::byte> bytes_;
};

}  // namespace tutti::core
