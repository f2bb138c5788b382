// Writes checkpoints so that a crash or a full disk at any moment leaves the older ones, whole.
//
//   every rank   pieces = write_rank_file(temporary_folder(folder, step), rank, owned)     synced
//   to disk rank 0       commit(folder, index, pieces of all ranks)     index.json, rename to
//   step-N, done mark rank 0       prune(folder, keep)
// If any rank fails, nobody commits and rank 0 calls discard(). Free functions over the caller's
// memory: a checkpoint thread runs them on a snapshot while training goes on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/format.h"
#include "mesh/cut.h"
#include "mesh/reshard.h"

namespace tutti::checkpoint {

/// Elements of one tensor, or of a part of it, that this rank owns; a piece of no elements only
/// mentions the tensor. The bytes are the caller's until write_rank_file() returns.
struct OwnedPiece {
  std::string tensor;               // logical name
  std::string dtype;                // safetensors' names: F32, F64, ...
  std::vector<std::int64_t> shape;  // of the whole tensor
  mesh::FlatSlice slice;            // which of its elements; with `cut` which of the part's
  std::span<const std::byte> bytes;
  mesh::Cut cut = {};  // the part of the tensor that is meant
};

/// CHECKPOINTS/step-N.tmp.
std::filesystem::path temporary_folder(const std::filesystem::path& checkpoints, std::int64_t step);

/// Writes rank-R.safetensors into `folder` (made if it is not there) and syncs it. Returns what
/// commit() needs to know, as JSON text. A piece that is a whole tensor keeps its shape and name,
/// so that one rank's file is an ordinary model file. Throws RunError (disk full: with numbers; its
/// own file is removed, the folder is left to discard()), std::invalid_argument if bytes do not fit
/// a piece.
std::string write_rank_file(const std::filesystem::path& folder, int rank,
                            std::span<const OwnedPiece> pieces);

/// Makes the checkpoint of `index.step` real: index.tensors is made from the ranks' texts (tensors
/// in order of first mention), then index.json, rename and done mark are written and synced. An
/// existing checkpoint of that step is replaced; files of an interrupted earlier attempt are
/// removed. Returns the folder. Throws RunError; the temporary folder is then removed and other
/// checkpoints are as they were. Ranks that disagree about a tensor, or elements that nobody wrote,
/// are a RunError too: such a checkpoint could not be resumed.
std::filesystem::path commit(const std::filesystem::path& checkpoints, Index index,
                             std::span<const std::string> pieces_of_ranks);

/// Removes step-N.tmp, whatever is in it. Never throws.
void discard(const std::filesystem::path& checkpoints, std::int64_t step) noexcept;

/// Keeps the `keep` newest complete checkpoints and the one with the smallest validation loss (the
/// newest of equals); removes other complete ones, and temporary folders not newer than the newest
/// complete checkpoint. Throws std::invalid_argument unless keep >= 1, RunError if a folder cannot
/// be removed.
void prune(const std::filesystem::path& checkpoints, int keep);

}  // namespace tutti::checkpoint
