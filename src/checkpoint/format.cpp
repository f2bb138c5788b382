// index.json <-> Index. Files come from disks and other people: every field is checked before it is
// believed.
#include "checkpoint/format.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>
#include <utility>

#include "core/error.h"
#include "core/hash.h"
#include "core/safetensors.h"

namespace tutti::checkpoint {
namespace {

using core::Json;
using core::RunError;

constexpr std::string_view kFolderPrefix = "step-";

/// One JSON object of the index, with its name for messages.
class Fields {
 public:
  Fields(const Json& json, std::string where) : json_(json), where_(std::move(where)) {
    if (!json.is_object()) throw RunError(fmt::format("{} is not an object", where_));
  }

  const Json& at(const char* key) const {
    const auto value = json_.find(key);
    if (value == json_.end()) refuse(key, "is missing");
    return *value;
  }

  std::string text(const char* key) const {
    if (!at(key).is_string()) refuse(key, "is not a text");
    return at(key).get<std::string>();
  }

  std::uint64_t word(const char* key) const {
    if (!at(key).is_number_unsigned()) refuse(key, "is not a whole number >= 0");
    return at(key).get<std::uint64_t>();
  }

  std::int64_t count(const char* key) const {
    const std::uint64_t value = word(key);
    if (value > INT64_MAX) refuse(key, "is too large");
    return static_cast<std::int64_t>(value);
  }

  const Json& list(const char* key) const {
    if (!at(key).is_array()) refuse(key, "is not a list");
    return at(key);
  }

  [[noreturn]] void refuse(const char* key, const std::string& why) const {
    throw RunError(fmt::format("{}: \"{}\" {}", where_, key, why));
  }

 private:
  const Json& json_;
  std::string where_;
};

mesh::Cut cut_from_json(const Json& json, const std::string& where) {
  const Fields fields(json, where + ", a part");
  const auto small = [&](const char* key) {
    const std::uint64_t value = fields.word(key);
    if (value > INT32_MAX) fields.refuse(key, "is too large");
    return static_cast<int>(value);
  };
  return {.dim = small("dim"), .bands = small("bands"), .index = small("index"), .of = small("of")};
}

std::int64_t elements_of(const std::vector<std::int64_t>& shape) {
  std::int64_t product = 1;
  for (const std::int64_t size : shape) product *= size;
  return product;
}

Piece piece_from_json(const Json& json, const std::string& where,
                      const std::vector<std::int64_t>& shape) {
  const Fields fields(json, where + ", a piece");
  Piece piece{.slice = {fields.count("first"), fields.count("count")},
              .file = fields.text("file"),
              .key = fields.text("key")};
  std::int64_t elements = 0;
  try {
    if (json.contains("part")) piece.cut = cut_from_json(json["part"], where);
    elements = elements_of(mesh::part_shape(shape, piece.cut));
  } catch (const std::invalid_argument& error) {
    fields.refuse("part", fmt::format("is none: {}", error.what()));
  }
  // A name that leads out of the folder would make us read, or show, a file that is none of ours.
  if (piece.file.empty() || piece.file == "." || piece.file == ".." ||
      piece.file.find('/') != std::string::npos) {
    fields.refuse("file", fmt::format("= \"{}\" is not the plain name of a file", piece.file));
  }
  if (piece.slice.first > elements || piece.slice.count > elements - piece.slice.first) {
    fields.refuse("count",
                  fmt::format("= {} from element {} leaves the tensor or its part, which has {}",
                              piece.slice.count, piece.slice.first, elements));
  }
  try {
    piece.xxh3 = core::from_hex(fields.text("xxh3"));
  } catch (const std::invalid_argument&) {
    fields.refuse("xxh3", "is not 16 hexadecimal digits");
  }
  return piece;
}

TensorEntry tensor_from_json(const Json& json, const std::string& where) {
  const Fields fields(json, where + ", a tensor");
  TensorEntry tensor{.name = fields.text("name"), .dtype = fields.text("dtype")};
  std::int64_t bytes = static_cast<std::int64_t>(core::safetensors_element_bytes(tensor.dtype));
  if (bytes == 0) fields.refuse("dtype", fmt::format("= \"{}\" is unknown", tensor.dtype));
  for (const Json& size : fields.list("shape")) {
    if (!size.is_number_unsigned() || size.get<std::uint64_t>() > INT64_MAX ||
        __builtin_mul_overflow(bytes, size.get<std::int64_t>(), &bytes)) {
      fields.refuse("shape", fmt::format("of \"{}\" holds {}", tensor.name, size.dump()));
    }
    tensor.shape.push_back(size.get<std::int64_t>());
  }
  for (const Json& piece : fields.list("pieces")) {
    tensor.pieces.push_back(
        piece_from_json(piece, fmt::format("{}, \"{}\"", where, tensor.name), tensor.shape));
  }
  return tensor;
}

}  // namespace

std::int64_t TensorEntry::elements() const { return elements_of(shape); }

PlacedSlices TensorEntry::placed() const {
  PlacedSlices placed;
  for (std::size_t piece = 0; piece < pieces.size(); ++piece) {
    std::int64_t offset = 0;
    for (const mesh::FlatSlice& slice :
         mesh::place_in_whole(shape, pieces[piece].cut, pieces[piece].slice)) {
      placed.slices.push_back(slice);
      placed.piece.push_back(piece);
      placed.offset.push_back(std::exchange(offset, offset + slice.count));
    }
  }
  return placed;
}

const TensorEntry* Index::find(const std::string& name) const {
  const auto found = std::find_if(tensors.begin(), tensors.end(),
                                  [&](const TensorEntry& tensor) { return tensor.name == name; });
  return found == tensors.end() ? nullptr : &*found;
}

Json tensors_to_json(std::span<const TensorEntry> tensors) {
  Json list = Json::array();
  for (const TensorEntry& tensor : tensors) {
    Json pieces = Json::array();
    for (const Piece& piece : tensor.pieces) {
      Json& json =
          pieces.emplace_back(Json{{"file", piece.file},
                                   {"key", piece.key},
                                   {"first", static_cast<std::uint64_t>(piece.slice.first)},
                                   {"count", static_cast<std::uint64_t>(piece.slice.count)},
                                   {"xxh3", core::to_hex(piece.xxh3)}});
      if (piece.cut.of > 1) {
        const auto word = [](int value) { return static_cast<std::uint64_t>(value); };
        json["part"] = {{"dim", word(piece.cut.dim)},
                        {"bands", word(piece.cut.bands)},
                        {"index", word(piece.cut.index)},
                        {"of", word(piece.cut.of)}};
      }
    }
    list.push_back({{"name", tensor.name},
                    {"dtype", tensor.dtype},
                    {"shape", tensor.shape},
                    {"pieces", std::move(pieces)}});
  }
  return list;
}

std::vector<TensorEntry> tensors_from_json(const Json& json, const std::string& where) {
  if (!json.is_array()) throw RunError(fmt::format("{}: \"tensors\" is not a list", where));
  std::vector<TensorEntry> tensors;
  std::set<std::string> names;
  for (const Json& item : json) {
    tensors.push_back(tensor_from_json(item, where));
    if (!names.insert(tensors.back().name).second) {
      throw RunError(
          fmt::format("{}: tensor \"{}\" stands there twice", where, tensors.back().name));
    }
  }
  return tensors;
}

Json to_json(const Index& index) {
  const bool has_loss = index.valid_loss && std::isfinite(*index.valid_loss);  // JSON knows no NaN
  const auto has_part = [](const TensorEntry& tensor) {
    return std::any_of(tensor.pieces.begin(), tensor.pieces.end(),
                       [](const Piece& piece) { return piece.cut.of > 1; });
  };
  const bool parts = std::any_of(index.tensors.begin(), index.tensors.end(), has_part);
  return {{"format_version", parts ? kFormatVersion : 1},
          {"tutti_version", index.tutti_version},
          {"step", static_cast<std::uint64_t>(index.step)},
          {"seed", index.seed},
          {"samples", index.samples},
          {"valid_loss", has_loss ? Json(*index.valid_loss) : Json(nullptr)},
          {"model", index.model},
          {"layout", index.layout},
          {"tensors", tensors_to_json(index.tensors)}};
}

Index index_from_json(const Json& json, const std::string& where) {
  const Fields fields(json, where);
  const std::int64_t version = fields.count("format_version");
  if (version < 1 || version > kFormatVersion) {
    fields.refuse(
        "format_version",
        fmt::format("= {}, this tutti reads 1 to {}: use the tutti that wrote it ({})", version,
                    kFormatVersion, json.value("tutti_version", Json("unknown")).dump()));
  }
  Index index{.tutti_version = fields.text("tutti_version"),
              .step = fields.count("step"),
              .seed = fields.word("seed"),
              .samples = fields.word("samples"),
              .model = fields.at("model"),
              .layout = fields.at("layout"),
              .tensors = tensors_from_json(fields.at("tensors"), where)};
  const Json& loss = fields.at("valid_loss");
  if (!loss.is_null() && !loss.is_number()) fields.refuse("valid_loss", "is not a number or null");
  if (loss.is_number()) index.valid_loss = loss.get<double>();
  for (const TensorEntry& tensor : index.tensors) {
    if (const auto gap = first_gap(tensor)) {
      throw RunError(
          fmt::format("{}: no piece holds element {} of \"{}\"", where, *gap, tensor.name));
    }
  }
  return index;
}

std::optional<std::int64_t> first_gap(const TensorEntry& tensor) {
  std::vector<mesh::FlatSlice> slices = tensor.placed().slices;
  std::sort(slices.begin(), slices.end(),
            [](const auto& a, const auto& b) { return a.first < b.first; });
  std::int64_t covered = 0;
  for (const mesh::FlatSlice& slice : slices) {
    if (slice.first > covered) break;
    covered = std::max(covered, slice.first + slice.count);
  }
  return covered < tensor.elements() ? std::optional(covered) : std::nullopt;
}

std::string folder_name(std::int64_t step) { return fmt::format("{}{}", kFolderPrefix, step); }

std::optional<std::int64_t> step_of(const std::filesystem::path& folder) {
  const std::string name = folder.filename().string();
  if (!name.starts_with(kFolderPrefix)) return std::nullopt;
  std::int64_t step = 0;
  const char* begin = name.data() + kFolderPrefix.size();
  const char* end = name.data() + name.size();
  const auto [stop, error] = std::from_chars(begin, end, step);
  if (error != std::errc{} || stop != end || folder_name(step) != name) return std::nullopt;
  return step;
}

}  // namespace tutti::checkpoint
