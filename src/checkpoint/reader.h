// Finds complete checkpoints and fills any slices of any tensor from them, whoever wrote them.
// Damage is the user's to decide about: it is a ConfigError that says what is wrong and which older
// checkpoint is whole.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/format.h"
#include "core/error.h"
#include "core/safetensors.h"
#include "mesh/reshard.h"

namespace tutti::checkpoint {

/// A folder step-N with a done mark.
struct Complete {
  std::filesystem::path folder;
  std::int64_t step = 0;
  std::optional<double> valid_loss;  // empty also if the index cannot be read
};

/// Oldest first; none if the folder is not there. Looks at marks and indexes only: pieces may still
/// be damaged.
std::vector<Complete> complete_checkpoints(const std::filesystem::path& checkpoints);

/// The newest complete checkpoint of CHECKPOINTS: what `--resume latest` means.
std::optional<std::filesystem::path> latest_checkpoint(const std::filesystem::path& checkpoints);

/// The checkpoint that a user's path means: a checkpoint, a folder of checkpoints or a run's folder
/// (the newest then). Throws ConfigError if there is none.
std::filesystem::path find_checkpoint(const std::filesystem::path& path);

/// Throws ConfigError if the mark is missing, or the index is not what the mark vouches for.
Index read_index(const std::filesystem::path& checkpoint);

/// One problem for each key of `model` that the checkpoint's model has differently: resuming would
/// not be a resume.
std::vector<core::Problem> check_model(const Index& index, const core::Json& model);

/// Elements wanted, and where they go: exactly slice.count elements of the tensor's dtype.
struct Target {
  mesh::FlatSlice slice;
  std::span<std::byte> out;
};

/// Reads one checkpoint. Files are mapped when they are first needed; a piece is hashed when it is
/// first used. Not thread-safe.
class Reader {
 public:
  /// Reads the index only. Throws ConfigError.
  explicit Reader(std::filesystem::path checkpoint);

  [[nodiscard]] const std::filesystem::path& folder() const { return folder_; }
  [[nodiscard]] const Index& index() const { return index_; }

  /// Fills the targets. Throws ConfigError if the checkpoint has no such tensor or is damaged,
  /// std::invalid_argument if a target leaves the tensor or does not fit its memory.
  void read(const std::string& tensor, std::span<const Target> targets);

  /// The whole tensor, F32 or F64, as doubles. Throws ConfigError, also for other types.
  std::vector<double> read_doubles(const std::string& tensor);

  /// Reads and hashes every piece of every tensor. Throws ConfigError at the first damage.
  void verify_all();

 private:
  const core::SafetensorsFile& file(const std::string& name);
  /// The bytes of a piece, hashed; throws RunError.
  std::span<const std::byte> piece_bytes(const TensorEntry& tensor, const Piece& piece);
  const TensorEntry& tensor(const std::string& name) const;

  std::filesystem::path folder_;
  Index index_;
  std::map<std::string, std::unique_ptr<core::SafetensorsFile>> files_;
  std::set<std::pair<std::string, std::string>>
      hashed_;  // file and key of pieces that are as written
};

}  // namespace tutti::checkpoint
