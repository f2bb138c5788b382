// Reader and writer of core/safetensors.h. The reader trusts nothing: a file may be cut, damaged or
// made by somebody else.
#include "core/safetensors.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <set>
#include <string_view>

#include "core/error.h"
#include "core/json.h"

namespace tutti::core {
namespace {

constexpr std::size_t kLengthBytes = 8;
constexpr std::uint64_t kLongestHeader = 100'000'000;  // the format's own limit
constexpr std::size_t kAlignment = 8;  // of the data's begin; the header is padded with spaces
constexpr std::string_view kMetadata = "__metadata__";

constexpr std::array<std::pair<std::string_view, std::size_t>, 14> kTypes = {{{"F64", 8},
                                                                              {"F32", 4},
                                                                              {"F16", 2},
                                                                              {"BF16", 2},
                                                                              {"F8_E4M3", 1},
                                                                              {"F8_E5M2", 1},
                                                                              {"I64", 8},
                                                                              {"I32", 4},
                                                                              {"I16", 2},
                                                                              {"I8", 1},
                                                                              {"U64", 8},
                                                                              {"U32", 4},
                                                                              {"U8", 1},
                                                                              {"BOOL", 1}}};

/// Bytes of an array; empty if a dimension is negative, the type unknown or the product beyond 64
/// bits.
std::optional<std::uint64_t> array_bytes(const std::string& dtype,
                                         const std::vector<std::int64_t>& shape) {
  std::uint64_t bytes = safetensors_element_bytes(dtype);
  if (bytes == 0) return std::nullopt;
  for (const std::int64_t size : shape) {
    if (size < 0) return std::nullopt;
    if (__builtin_mul_overflow(bytes, static_cast<std::uint64_t>(size), &bytes))
      return std::nullopt;
  }
  return bytes;
}

/// Reads the header of one file; every failure names the file and the place.
class Header {
 public:
  Header(const std::filesystem::path& path, std::span<const std::byte> file)
      : path_(path), file_(file) {}

  /// The header's JSON. Afterwards data() is what follows it.
  Json read() {
    if (file_.size() < kLengthBytes) {
      refuse(fmt::format("it has {} bytes, fewer than the {} of the header's length: cut short",
                         file_.size(), kLengthBytes));
    }
    std::uint64_t length = 0;
    for (std::size_t i = 0; i < kLengthBytes; ++i) {  // little-endian on every host
      length |= static_cast<std::uint64_t>(file_[i]) << (8 * i);
    }
    if (length > kLongestHeader) {
      refuse(fmt::format("its header claims {} bytes, the format allows {}: not a safetensors file",
                         length, kLongestHeader));
    }
    if (length > file_.size() - kLengthBytes) {
      refuse(fmt::format("its header claims {} bytes, {} follow: cut short", length,
                         file_.size() - kLengthBytes));
    }
    data_ = file_.subspan(kLengthBytes + length);
    return parse({reinterpret_cast<const char*>(file_.data()) + kLengthBytes, length});
  }

  SafetensorsEntry entry(const std::string& name, const Json& json) const {
    if (!json.is_object()) refuse(fmt::format("\"{}\" is not an object", name));
    SafetensorsEntry entry{.name = name};
    const auto dtype = json.find("dtype");
    if (dtype == json.end() || !dtype->is_string() ||
        safetensors_element_bytes(dtype->get<std::string>()) == 0) {
      refuse(fmt::format("\"{}\" has no known dtype", name));
    }
    entry.dtype = dtype->get<std::string>();
    for (const std::uint64_t size : numbers(name, json, "shape")) {
      entry.shape.push_back(static_cast<std::int64_t>(size));
    }
    const std::vector<std::uint64_t> offsets = numbers(name, json, "data_offsets");
    if (offsets.size() != 2 || offsets[0] > offsets[1]) {
      refuse(fmt::format("the data_offsets of \"{}\" are no range [begin, end]", name));
    }
    if (offsets[1] > data_.size()) {
      refuse(fmt::format("\"{}\" ends at byte {} of the data, which has {}: cut short", name,
                         offsets[1], data_.size()));
    }
    const auto bytes = array_bytes(entry.dtype, entry.shape);
    if (bytes != offsets[1] - offsets[0]) {
      refuse(fmt::format("\"{}\" of type {} and shape [{}] does not fit its {} bytes", name,
                         entry.dtype, fmt::join(entry.shape, ", "), offsets[1] - offsets[0]));
    }
    entry.bytes = data_.subspan(offsets[0], offsets[1] - offsets[0]);
    return entry;
  }

  /// Entries, sorted by place, must fill the data without gap or overlap.
  void check_cover(const std::vector<SafetensorsEntry>& entries) const {
    std::size_t end = 0;
    for (const SafetensorsEntry& entry : entries) {
      const auto begin = static_cast<std::size_t>(entry.bytes.data() - data_.data());
      if (begin != end) {
        refuse(fmt::format("\"{}\" begins at byte {} of the data, the one before it ends at {}: {}",
                           entry.name, begin, end, begin < end ? "they overlap" : "a gap"));
      }
      end += entry.bytes.size();
    }
    if (end != data_.size()) {
      refuse(fmt::format("{} bytes follow the last array", data_.size() - end));
    }
  }

  [[noreturn]] void refuse(const std::string& why) const {
    throw RunError(fmt::format("{} is damaged: {}", path_.string(), why));
  }

 private:
  Json parse(std::string_view text) const {
    // The parser takes a zero byte for the end of the text, whatever follows.
    if (text.find('\0') != text.npos) refuse("its header is not JSON (a zero byte)");
    std::set<std::string> names;
    const auto refuse_twice = [&](int depth, Json::parse_event_t event, Json& value) {
      if (event == Json::parse_event_t::key && depth == 1 &&
          !names.insert(value.get<std::string>()).second) {
        refuse(fmt::format("\"{}\" stands in the header twice", value.get<std::string>()));
      }
      return true;
    };
    try {
      Json json = Json::parse(text.begin(), text.end(), refuse_twice);
      if (!json.is_object()) refuse("its header is not a JSON object");
      return json;
    } catch (const Json::exception& error) {
      refuse(fmt::format("its header is not JSON ({})", error.what()));
    }
  }

  std::vector<std::uint64_t> numbers(const std::string& name, const Json& json,
                                     const char* key) const {
    const auto list = json.find(key);
    if (list == json.end() || !list->is_array()) {
      refuse(fmt::format("\"{}\" has no list \"{}\"", name, key));
    }
    std::vector<std::uint64_t> values;
    for (const Json& value : *list) {
      if (!value.is_number_unsigned() || value.get<std::uint64_t>() > INT64_MAX) {
        refuse(fmt::format("{} of \"{}\" holds {}, which is no size", key, name, value.dump()));
      }
      values.push_back(value.get<std::uint64_t>());
    }
    return values;
  }

  const std::filesystem::path& path_;
  std::span<const std::byte> file_;
  std::span<const std::byte> data_;
};

/// The entries in the order in which they are written.
std::vector<const SafetensorsEntry*> in_file_order(std::span<const SafetensorsEntry> entries) {
  std::vector<const SafetensorsEntry*> order;
  std::set<std::string_view> names;
  for (const SafetensorsEntry& entry : entries) {
    if (!names.insert(entry.name).second || entry.name == kMetadata) {
      throw std::invalid_argument(
          fmt::format("\"{}\" cannot name an array here: taken already", entry.name));
    }
    if (array_bytes(entry.dtype, entry.shape) != entry.bytes.size()) {
      throw std::invalid_argument(fmt::format("\"{}\" of type {} and shape [{}] with {} bytes",
                                              entry.name, entry.dtype, fmt::join(entry.shape, ", "),
                                              entry.bytes.size()));
    }
    order.push_back(&entry);
  }
  std::stable_sort(order.begin(), order.end(), [](const auto* a, const auto* b) {
    return safetensors_element_bytes(a->dtype) > safetensors_element_bytes(b->dtype);
  });
  return order;
}

}  // namespace

std::size_t safetensors_element_bytes(const std::string& dtype) {
  for (const auto& [name, bytes] : kTypes) {
    if (name == dtype) return bytes;
  }
  return 0;
}

void write_safetensors(const std::filesystem::path& path, std::span<const SafetensorsEntry> entries,
                       const std::map<std::string, std::string>& metadata) {
  const std::vector<const SafetensorsEntry*> order = in_file_order(entries);
  Json header = Json::object();
  if (!metadata.empty()) header[std::string(kMetadata)] = metadata;
  std::uint64_t begin = 0;
  for (const SafetensorsEntry* entry : order) {
    const std::uint64_t end = begin + entry->bytes.size();
    header[entry->name] = {
        {"dtype", entry->dtype}, {"shape", entry->shape}, {"data_offsets", {begin, end}}};
    begin = end;
  }
  std::string text = header.dump();
  text.append((kAlignment - text.size() % kAlignment) % kAlignment, ' ');

  std::array<std::byte, kLengthBytes> length;
  for (std::size_t i = 0; i < kLengthBytes; ++i) {
    length[i] = static_cast<std::byte>(text.size() >> (8 * i));
  }
  OutputFile file(path);
  file.write(length);
  file.write(std::as_bytes(std::span(text)));
  for (const SafetensorsEntry* entry : order) file.write(entry->bytes);
  file.finish();
}

SafetensorsFile::SafetensorsFile(const std::filesystem::path& path) : file_(path) {
  Header header(path, file_.bytes());
  const Json json = header.read();
  for (const auto& [name, value] : json.items()) {
    if (name != kMetadata) {
      entries_.push_back(header.entry(name, value));
      continue;
    }
    if (!value.is_object()) header.refuse("its metadata is not an object");
    for (const auto& [key, text] : value.items()) {
      if (!text.is_string()) header.refuse(fmt::format("its metadata \"{}\" is no text", key));
      metadata_[key] = text.get<std::string>();
    }
  }
  // Arrays of no bytes begin where another one does: they come first.
  std::sort(entries_.begin(), entries_.end(), [](const auto& a, const auto& b) {
    return std::pair(a.bytes.data(), a.bytes.size()) < std::pair(b.bytes.data(), b.bytes.size());
  });
  header.check_cover(entries_);
  for (std::size_t i = 0; i < entries_.size(); ++i) places_[entries_[i].name] = i;
}

const SafetensorsEntry& SafetensorsFile::at(const std::string& name) const {
  const auto place = places_.find(name);
  if (place == places_.end()) throw RunError(fmt::format("no array \"{}\" in the file", name));
  return entries_[place->second];
}

}  // namespace tutti::core
