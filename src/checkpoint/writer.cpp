// The order of the system calls is the guarantee: data and names reach the disk before the mark
// that vouches for them.
#include "checkpoint/writer.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <set>
#include <system_error>

#include "checkpoint/reader.h"
#include "core/error.h"
#include "core/file.h"
#include "core/hash.h"
#include "core/safetensors.h"

namespace tutti::checkpoint {
namespace {

namespace fs = std::filesystem;
using core::Json;
using core::RunError;

constexpr std::string_view kTemporarySuffix = ".tmp";

/// Adds one rank's tensors to those of the ranks before it.
void merge(std::vector<TensorEntry>& tensors, std::map<std::string, std::size_t>& places,
           std::vector<TensorEntry> more) {
  for (TensorEntry& tensor : more) {
    const auto [place, is_new] = places.emplace(tensor.name, tensors.size());
    if (is_new) {
      tensors.push_back(std::move(tensor));
      continue;
    }
    TensorEntry& known = tensors[place->second];
    if (known.dtype != tensor.dtype || known.shape != tensor.shape) {
      throw RunError(fmt::format("ranks disagree about \"{}\": {} [{}] and {} [{}]", tensor.name,
                                 known.dtype, fmt::join(known.shape, ", "), tensor.dtype,
                                 fmt::join(tensor.shape, ", ")));
    }
    known.pieces.insert(known.pieces.end(), tensor.pieces.begin(), tensor.pieces.end());
  }
}

std::vector<TensorEntry> merge_all(std::span<const std::string> pieces_of_ranks) {
  std::vector<TensorEntry> tensors;
  std::map<std::string, std::size_t> places;
  for (std::size_t rank = 0; rank < pieces_of_ranks.size(); ++rank) {
    const std::string where = fmt::format("the pieces of rank {}", rank);
    const Json json = Json::parse(pieces_of_ranks[rank], nullptr, /*allow_exceptions=*/false);
    if (json.is_discarded()) throw RunError(fmt::format("{} are not JSON", where));
    merge(tensors, places, tensors_from_json(json, where));
  }
  for (const TensorEntry& tensor : tensors) {
    if (const auto gap = first_gap(tensor)) {
      throw RunError(fmt::format("no rank wrote element {} of \"{}\"", *gap, tensor.name));
    }
  }
  return tensors;
}

/// Files that the index does not name come from an attempt that died, perhaps with more ranks.
void remove_strangers(const fs::path& folder, const Index& index) {
  std::set<std::string> known;
  for (const TensorEntry& tensor : index.tensors) {
    for (const Piece& piece : tensor.pieces) known.insert(piece.file);
  }
  std::vector<fs::path> strangers;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    if (!known.contains(entry.path().filename().string())) strangers.push_back(entry.path());
  }
  for (const fs::path& path : strangers) fs::remove_all(path);
}

/// Takes the mark away first: a checkpoint that is half removed must not look complete.
void remove_checkpoint(const fs::path& folder) {
  fs::remove(folder / kDoneFile);
  core::sync_path(folder);
  fs::remove_all(folder);
}

void write_synced(const fs::path& path, std::string_view content) {
  core::OutputFile file(path);
  file.write(std::as_bytes(std::span(content)));
  file.finish();
}

fs::path commit_or_throw(const fs::path& checkpoints, const Index& index) {
  const fs::path temporary = temporary_folder(checkpoints, index.step);
  const fs::path folder = checkpoints / folder_name(index.step);
  fs::create_directories(temporary);
  remove_strangers(temporary, index);
  const std::string text = to_json(index).dump(1) + "\n";
  write_synced(temporary / kIndexFile, text);
  core::sync_path(temporary);  // the names of all ranks' files
  if (fs::exists(folder)) remove_checkpoint(folder);
  if (::rename(temporary.c_str(), folder.c_str()) != 0) {
    core::throw_errno(fmt::format("rename of {} to {}", temporary.string(), folder.string()));
  }
  core::sync_path(checkpoints);
  core::write_file_atomically(folder / kDoneFile, core::to_hex(core::xxh3(text)) + "\n");
  return folder;
}

}  // namespace

fs::path temporary_folder(const fs::path& checkpoints, std::int64_t step) {
  return checkpoints / (folder_name(step) + std::string(kTemporarySuffix));
}

std::string write_rank_file(const fs::path& folder, int rank, std::span<const OwnedPiece> pieces) {
  const std::string file = fmt::format("rank-{}.safetensors", rank);
  std::vector<TensorEntry> tensors;
  std::map<std::string, std::size_t> places;
  std::vector<core::SafetensorsEntry> entries;
  for (const OwnedPiece& owned : pieces) {
    TensorEntry tensor{.name = owned.tensor, .dtype = owned.dtype, .shape = owned.shape};
    const bool whole = owned.cut.of == 1 && owned.slice == mesh::FlatSlice{0, tensor.elements()};
    if (whole || owned.slice.count > 0) {
      const std::string key =
          whole ? owned.tensor : fmt::format("{}@{}", owned.tensor, owned.slice.first);
      tensor.pieces.push_back({owned.slice, file, key, core::xxh3(owned.bytes), owned.cut});
      entries.push_back(
          {key, owned.dtype, whole ? owned.shape : std::vector{owned.slice.count}, owned.bytes});
    }
    merge(tensors, places, {std::move(tensor)});
  }
  try {
    fs::create_directories(folder);
    core::write_safetensors(folder / file, entries);
  } catch (const fs::filesystem_error& error) {
    throw RunError(fmt::format("cannot save a checkpoint: {}", error.what()));
  } catch (const RunError&) {
    // The room is needed, and nobody will commit it. The folder stays: others may be about to open
    // their files in it.
    ::unlink((folder / file).c_str());
    throw;
  }
  return tensors_to_json(tensors).dump();
}

fs::path commit(const fs::path& checkpoints, Index index,
                std::span<const std::string> pieces_of_ranks) {
  try {
    index.tensors = merge_all(pieces_of_ranks);
    return commit_or_throw(checkpoints, index);
  } catch (const fs::filesystem_error& error) {
    discard(checkpoints, index.step);
    throw RunError(
        fmt::format("cannot save the checkpoint of step {}: {}", index.step, error.what()));
  } catch (...) {
    discard(checkpoints, index.step);
    throw;
  }
}

void discard(const fs::path& checkpoints, std::int64_t step) noexcept {
  std::error_code ignored;  // what cannot be removed now is removed by a later prune()
  try {
    fs::remove_all(temporary_folder(checkpoints, step), ignored);
  } catch (const std::bad_alloc&) {
    return;
  }
}

void prune(const fs::path& checkpoints, int keep) {
  if (keep < 1) throw std::invalid_argument(fmt::format("keep = {} checkpoints", keep));
  const std::vector<Complete> all = complete_checkpoints(checkpoints);  // oldest first
  if (all.empty()) return;
  std::optional<std::int64_t> best;
  double best_loss = 0.0;
  for (const Complete& each : all) {
    const std::optional<double> loss = each.valid_loss;
    if (loss && (!best || *loss <= best_loss)) {
      best = each.step;
      best_loss = *loss;
    }
  }
  try {
    const std::size_t num_old = all.size() - std::min(all.size(), static_cast<std::size_t>(keep));
    for (std::size_t i = 0; i < num_old; ++i) {
      if (all[i].step != best) remove_checkpoint(all[i].folder);
    }
    std::vector<fs::path> stale;
    for (const fs::directory_entry& entry : fs::directory_iterator(checkpoints)) {
      const auto step = step_of(entry.path().stem());
      if (entry.path().extension() == kTemporarySuffix && step && *step <= all.back().step) {
        stale.push_back(entry.path());
      }
    }
    for (const fs::path& path : stale) fs::remove_all(path);
  } catch (const fs::filesystem_error& error) {
    throw RunError(fmt::format("cannot remove an old checkpoint: {}", error.what()));
  }
}

}  // namespace tutti::checkpoint
