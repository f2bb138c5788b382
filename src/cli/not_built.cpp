// Commands of the interface whose part does not exist yet: each says so and exits 2.
#include <fmt/format.h>

#include "cli/commands.h"
#include "core/error.h"

namespace tutti::cli {

void add_not_built(Commands& commands) {
  for (const auto& [name, does] : {
           std::pair{"plan", "searches layouts for a model on a cluster"},
           std::pair{"simulate", "predicts one step of a layout"},
           std::pair{"doctor", "looks at this host and says what is wrong"},
           std::pair{"report", "makes one HTML page of a run"},
       }) {
    CLI::App* command = commands.app.add_subcommand(name, fmt::format("(not built yet) {}", does));
    command->allow_extras();
    command->callback([&commands, name = name, does = does] {
      commands.chosen = [=]() -> int {
        throw core::ConfigError(fmt::format(
            "tutti {} is not built yet: it {}. What this version can do stands in tutti --help.",
            name, does));
      };
    });
  }
}

}  // namespace tutti::cli
