// What stands in a checkpoint: index.json names every logical tensor and the pieces that make it
// up.
//
//   CHECKPOINTS/step-50/index.json            this file's Index
//   CHECKPOINTS/step-50/rank-0.safetensors    pieces, each a flat range of elements of one tensor,
//   or of the part of it that a tensor-parallel rank holds
//   CHECKPOINTS/step-50/done                  hash of index.json; without it the checkpoint does
//   not exist CHECKPOINTS/step-60.tmp/                  one that is being written, or whose writer
//   died
//
// Names are layout-free ("blocks.0.attn.qkv.weight", "exp_avg/blocks.0.attn.qkv.weight"); no rank
// number and no bucket means anything: any number of ranks can read what any other number wrote.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/json.h"
#include "mesh/cut.h"
#include "mesh/reshard.h"

namespace tutti::checkpoint {

/// 2 knows parts of tensors; a checkpoint without any is written as 1, which older readers know.
inline constexpr int kFormatVersion = 2;
inline constexpr const char* kIndexFile = "index.json";
inline constexpr const char* kDoneFile = "done";

/// Elements `slice` of the part `cut` of a tensor: where they lie and what they hash to.
struct Piece {
  mesh::FlatSlice slice;
  std::string file;        // beside index.json
  std::string key;         // the array's name in that file
  std::uint64_t xxh3 = 0;  // of the piece's bytes
  mesh::Cut cut = {};      // the whole tensor unless it says otherwise
  friend bool operator==(const Piece&, const Piece&) = default;
};

/// Slices of a whole tensor that pieces are made of, piece by piece.
struct PlacedSlices {
  std::vector<mesh::FlatSlice> slices;
  std::vector<std::size_t> piece;    // of each slice
  std::vector<std::int64_t> offset;  // of each slice in its piece
};

struct TensorEntry {
  std::string name;
  std::string dtype;                // safetensors' names: F32, F64, BF16, ...
  std::vector<std::int64_t> shape;  // global, unpadded
  std::vector<Piece> pieces;        // together they cover every element; replicas may overlap

  [[nodiscard]] std::int64_t elements() const;
  /// Where the elements of all pieces lie in the tensor, and whose they are.
  [[nodiscard]] PlacedSlices placed() const;
  friend bool operator==(const TensorEntry&, const TensorEntry&) = default;
};

struct Index {
  std::string tutti_version;
  std::int64_t step = 0;  // optimizer steps done
  std::uint64_t seed = 0;
  std::uint64_t samples = 0;  // global sample counter: sequences consumed so far, over all ranks
  std::optional<double> valid_loss = {};     // nats per token; empty if not measured
  core::Json model = core::Json::object();   // what must be equal for a resume, key by key
  core::Json layout = core::Json::object();  // who wrote it; information only
  std::vector<TensorEntry> tensors = {};     // in model order

  /// The tensor of that name, or null.
  [[nodiscard]] const TensorEntry* find(const std::string& name) const;
};

/// With the oldest format version that says it all.
core::Json to_json(const Index& index);

/// Checks every field, that pieces lie inside their tensor and cover it, and that files are plain
/// names. Throws core::RunError that says which field is wrong; `where` stands for the file in the
/// text.
Index index_from_json(const core::Json& json, const std::string& where);

/// The entries of `tensors` as they stand in index.json. write_rank_file() hands its pieces on in
/// this form.
core::Json tensors_to_json(std::span<const TensorEntry> tensors);
std::vector<TensorEntry> tensors_from_json(const core::Json& json, const std::string& where);

/// First element of the tensor that no piece covers; empty if all are there.
std::optional<std::int64_t> first_gap(const TensorEntry& tensor);

/// "step-50", and the step of such a name (empty for any other).
std::string folder_name(std::int64_t step);
std::optional<std::int64_t> step_of(const std::filesystem::path& folder);

}  // namespace tutti::checkpoint
