// A folder that goes away with its object: for tests, and for what a command writes only to read it
// back.
#pragma once

#include <filesystem>
#include <string_view>

namespace tutti::core {

/// A new, empty folder of this user below the system's temporary folder; its name begins with
/// "tutti-" and `purpose`.
class TemporaryFolder {
 public:
  /// Throws RunError if it cannot be made.
  explicit TemporaryFolder(std::string_view purpose);
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  /// Removes it with everything in it; what cannot be removed stays.
  ~TemporaryFolder();

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace tutti::core
