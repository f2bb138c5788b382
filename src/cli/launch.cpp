// tutti launch: any program on several ranks.
#include <memory>

#include "cli/commands.h"
#include "cli/run_ranks.h"
#include "core/error.h"

namespace tutti::cli {

void add_launch(Commands& commands) {
  CLI::App* command = add_command(commands.app, "launch",
                                  "starts any program on several ranks and dies cleanly with it",
                                  "tutti launch -n 2 --prefix -- python3 train.py --epochs 3");
  auto ranks = std::make_shared<RanksOptions>();
  command->add_option("-n", ranks->ranks, "ranks (default: one per core)")
      ->check(CLI::Range(1, 4096));
  command->add_flag("--prefix", ranks->prefix, "put [rank] in front of every line");
  command->add_option("--bind", ranks->bind, "core | numa | none (default: none)")
      ->check(CLI::IsMember({"core", "numa", "none"}));
  ranks->bind = "none";
  command->callback([&commands, ranks] {
    commands.chosen = [&commands, ranks] {
      if (commands.program.empty()) {
        throw core::ConfigError(
            "tutti launch has no program to start: put it behind --, like tutti launch -n 2 -- "
            "./program");
      }
      RanksOptions options = *ranks;
      options.program = commands.program.front();
      options.args.assign(commands.program.begin() + 1, commands.program.end());
      options.hand_store = false;  // a foreign rank 0 binds MASTER_PORT itself
      options.keep_user_threads = true;
      return run_ranks(options);
    };
  });
}

}  // namespace tutti::cli
