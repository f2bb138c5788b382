// The safetensors file format: named arrays, their types, shapes and bytes. Nothing of tensors
// libraries. Format: 8 bytes little-endian header length, JSON header, data.
// https://github.com/huggingface/safetensors
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "core/file.h"

namespace tutti::core {

/// One array to be written. `dtype` is the format's name: F32, F64, BF16, I64, U8. The bytes are
/// the caller's.
struct SafetensorsEntry {
  std::string name;
  std::string dtype;
  std::vector<std::int64_t> shape;
  std::span<const std::byte> bytes;
};

/// Writes the file in place, with fsync (callers write into a temporary folder and rename it).
/// Wide types come first, so that every array of a mapped file is aligned to its elements.
/// Throws std::invalid_argument if bytes do not fit shape and type or a name comes twice,
/// RunError if the disk does not take them.
void write_safetensors(const std::filesystem::path& path, std::span<const SafetensorsEntry> entries,
                       const std::map<std::string, std::string>& metadata = {});

/// A mapped file. Every offset and size of the header is checked before use.
class SafetensorsFile {
 public:
  /// Throws RunError naming path, place and what is wrong (cut short, overlapping, unknown type,
  /// bad JSON).
  explicit SafetensorsFile(const std::filesystem::path& path);
  [[nodiscard]] const std::vector<SafetensorsEntry>& entries() const { return entries_; }
  [[nodiscard]] const std::map<std::string, std::string>& metadata() const { return metadata_; }
  /// The entry of that name; throws RunError if there is none.
  [[nodiscard]] const SafetensorsEntry& at(const std::string& name) const;

 private:
  MappedFile file_;
  std::vector<SafetensorsEntry> entries_;  // in the order of their bytes
  std::map<std::string, std::size_t> places_;
  std::map<std::string, std::string> metadata_;
};

/// Bytes of one element; 0 if the name is unknown.
std::size_t safetensors_element_bytes(const std::string& dtype);

}  // namespace tutti::core
