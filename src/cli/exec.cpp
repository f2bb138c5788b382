// execv with C++ arguments.
#include "cli/exec.h"

#include <fmt/format.h>
#include <unistd.h>

#include "core/error.h"

namespace tutti::cli {

void exec(const std::filesystem::path& program, std::vector<std::string> args) {
  args.insert(args.begin(), program.string());
  std::vector<char*> argv;
  for (std::string& arg : args) argv.push_back(arg.data());
  argv.push_back(nullptr);
  ::execv(program.c_str(), argv.data());
  core::throw_errno(fmt::format("starting {}", program.string()));
}

}  // namespace tutti::cli
