// mkdtemp and its end.
#include "core/temporary_folder.h"

#include <stdlib.h>

#include <string>
#include <system_error>

#include "core/error.h"

namespace tutti::core {

TemporaryFolder::TemporaryFolder(std::string_view purpose) {
  // mkdtemp puts six characters of its own where the X stand
  std::string name = std::filesystem::temp_directory_path() /
                     fmt::format("tutti-{}-{}", purpose, std::string(6, 'X'));
  if (::mkdtemp(name.data()) == nullptr) throw_errno("making the folder " + name);
  path_ = name;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace tutti::core
