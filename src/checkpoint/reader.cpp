// Reading trusts the done mark, the mark vouches for the index, the index for every piece.
#include "checkpoint/reader.h"

#include <algorithm>
#include <cstring>

#include "core/file.h"
#include "core/hash.h"

namespace tutti::checkpoint {
namespace {

namespace fs = std::filesystem;
using core::ConfigError;
using core::Json;
using core::RunError;

/// What the user can do instead of reading `checkpoint`.
std::string cure(const fs::path& checkpoint) {
  const auto step = step_of(checkpoint);
  std::optional<fs::path> previous;
  const fs::path beside = checkpoint.has_parent_path() ? checkpoint.parent_path() : fs::path(".");
  for (const Complete& each : complete_checkpoints(beside)) {
    if (step && each.step < *step) previous = each.folder;
  }
  if (!previous) return "There is no older checkpoint beside it.";
  return fmt::format("The one before it: --resume {}", previous->string());
}

[[noreturn]] void refuse(const fs::path& checkpoint, const std::string& why) {
  throw ConfigError(fmt::format("checkpoint {} cannot be used: {}. {}", checkpoint.string(), why,
                                cure(checkpoint)));
}

/// The index, with RunErrors as its checks throw them.
Index read_index_or_throw(const fs::path& checkpoint) {
  const fs::path path = checkpoint / kIndexFile;
  if (!fs::exists(checkpoint / kDoneFile)) {
    throw RunError(fs::exists(checkpoint) ? "it has no done mark: its writer did not finish"
                                          : "it does not exist");
  }
  const std::string text = core::read_file(path);
  if (core::read_file(checkpoint / kDoneFile) != core::to_hex(core::xxh3(text)) + "\n") {
    throw RunError(
        fmt::format("{} is not the one that its done mark vouches for: one of the two is damaged",
                    path.string()));
  }
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded()) throw RunError(fmt::format("{} is not JSON", path.string()));
  return index_from_json(json, path.string());
}

void compare(const Json& run, const Json& saved, const std::string& key, const Index& index,
             std::vector<core::Problem>& problems) {
  if (run.is_object()) {
    for (const auto& [name, value] : run.items()) {
      const std::string inner = key.empty() ? name : key + "." + name;
      const bool has = saved.is_object() && saved.contains(name);
      compare(value, has ? saved[name] : Json(nullptr), inner, index, problems);
    }
  } else if (run != saved) {
    problems.push_back(
        {fmt::format("[model] {} = {} but the checkpoint of step {} holds {} = {}: its tensors "
                     "belong to another "
                     "model. Resume with the config of that run, or choose another [run] dir.",
                     key, run.dump(), index.step, key, saved.dump())});
  }
}

}  // namespace

std::vector<Complete> complete_checkpoints(const fs::path& checkpoints) {
  std::vector<Complete> found;
  std::error_code none;
  for (const fs::directory_entry& entry : fs::directory_iterator(checkpoints, none)) {
    const auto step = step_of(entry.path());
    if (!step || !fs::exists(entry.path() / kDoneFile)) continue;
    Complete complete{.folder = entry.path(), .step = *step};
    try {
      complete.valid_loss = read_index_or_throw(entry.path()).valid_loss;
    } catch (const RunError&) {
      // Complete but damaged: whoever reads it is told so; passing over it here would hide the
      // damage.
    }
    found.push_back(std::move(complete));
  }
  std::sort(found.begin(), found.end(),
            [](const Complete& a, const Complete& b) { return a.step < b.step; });
  return found;
}

std::optional<fs::path> latest_checkpoint(const fs::path& checkpoints) {
  const std::vector<Complete> all = complete_checkpoints(checkpoints);
  return all.empty() ? std::nullopt : std::optional(all.back().folder);
}

fs::path find_checkpoint(const fs::path& path) {
  const fs::path plain = path.has_filename() ? path : path.parent_path();  // without a trailing '/'
  if (fs::exists(plain / kIndexFile) || fs::exists(plain / kDoneFile)) return plain;
  for (const fs::path& folder : {plain, plain / "checkpoints"}) {
    if (const auto latest = latest_checkpoint(folder)) return *latest;
  }
  throw ConfigError(
      fmt::format("no checkpoint at {}: expected a folder with {}, a folder of such folders, or "
                  "the folder of a run",
                  path.string(), kIndexFile));
}

Index read_index(const fs::path& checkpoint) {
  try {
    return read_index_or_throw(checkpoint);
  } catch (const RunError& error) {
    refuse(checkpoint, error.what());
  }
}

std::vector<core::Problem> check_model(const Index& index, const Json& model) {
  std::vector<core::Problem> problems;
  compare(model, index.model, "", index, problems);
  return problems;
}

Reader::Reader(fs::path checkpoint) : folder_(std::move(checkpoint)), index_(read_index(folder_)) {}

const core::SafetensorsFile& Reader::file(const std::string& name) {
  auto& file = files_[name];
  if (!file) file = std::make_unique<core::SafetensorsFile>(folder_ / name);
  return *file;
}

std::span<const std::byte> Reader::piece_bytes(const TensorEntry& tensor, const Piece& piece) {
  const core::SafetensorsEntry& entry = file(piece.file).at(piece.key);
  const std::size_t element = core::safetensors_element_bytes(tensor.dtype);
  if (entry.dtype != tensor.dtype ||
      entry.bytes.size() != static_cast<std::size_t>(piece.slice.count) * element) {
    throw RunError(fmt::format("\"{}\" in {} has {} bytes of {}, the index says {} elements of {}",
                               piece.key, (folder_ / piece.file).string(), entry.bytes.size(),
                               entry.dtype, piece.slice.count, tensor.dtype));
  }
  if (hashed_.contains({piece.file, piece.key})) return entry.bytes;
  if (core::xxh3(entry.bytes) != piece.xxh3) {
    throw RunError(fmt::format("\"{}\" in {} is not what was written (its xxh3 differs)", piece.key,
                               (folder_ / piece.file).string()));
  }
  hashed_.emplace(piece.file, piece.key);
  return entry.bytes;
}

const TensorEntry& Reader::tensor(const std::string& name) const {
  const TensorEntry* found = index_.find(name);
  if (found == nullptr) refuse(folder_, fmt::format("it holds no tensor \"{}\"", name));
  return *found;
}

void Reader::read(const std::string& name, std::span<const Target> targets) {
  const TensorEntry& entry = tensor(name);
  const std::size_t element = core::safetensors_element_bytes(entry.dtype);
  std::vector<mesh::FlatSlice> wanted;
  for (const Target& target : targets) {
    if (target.out.size() != static_cast<std::size_t>(target.slice.count) * element) {
      throw std::invalid_argument(fmt::format("{} elements of \"{}\" ({}) into {} bytes",
                                              target.slice.count, name, entry.dtype,
                                              target.out.size()));
    }
    wanted.push_back(target.slice);
  }
  const PlacedSlices sources = entry.placed();
  try {
    for (const mesh::Copy& copy : mesh::reshard(sources.slices, wanted)) {
      const auto source = static_cast<std::size_t>(copy.source);
      const auto bytes = piece_bytes(entry, entry.pieces[sources.piece[source]]);
      std::memcpy(
          targets[static_cast<std::size_t>(copy.target)].out.data() +
              static_cast<std::size_t>(copy.target_offset) * element,
          bytes.data() +
              static_cast<std::size_t>(sources.offset[source] + copy.source_offset) * element,
          static_cast<std::size_t>(copy.count) * element);
    }
  } catch (const RunError& error) {
    refuse(folder_, error.what());
  }
}

std::vector<double> Reader::read_doubles(const std::string& name) {
  const TensorEntry& entry = tensor(name);
  const mesh::FlatSlice all{0, entry.elements()};
  std::vector<double> values(static_cast<std::size_t>(all.count));
  if (entry.dtype == "F64") {
    read(name, std::vector{Target{all, std::as_writable_bytes(std::span(values))}});
  } else if (entry.dtype == "F32") {
    std::vector<float> narrow(values.size());
    read(name, std::vector{Target{all, std::as_writable_bytes(std::span(narrow))}});
    std::copy(narrow.begin(), narrow.end(), values.begin());
  } else {
    refuse(folder_, fmt::format("\"{}\" is {}, not F32 or F64", name, entry.dtype));
  }
  return values;
}

void Reader::verify_all() {
  try {
    for (const TensorEntry& entry : index_.tensors) {
      for (const Piece& piece : entry.pieces) piece_bytes(entry, piece);
    }
  } catch (const RunError& error) {
    refuse(folder_, error.what());
  }
}

}  // namespace tutti::checkpoint
