// tutti bench collectives: how fast ranks of this host move and add, beside memcpy and other
// libraries.
#include <fmt/format.h>

#include "cli/bench_form.h"
#include "cli/commands.h"
#include "cli/exec.h"
#include "cli/run_ranks.h"
#include "core/error.h"

namespace tutti::cli {
namespace {

int bench(const BenchForm& form) {
  if (form.api == "comm") return run_bench(form, make_comm_operation);
  if (form.api != "group") {
    throw core::ConfigError(fmt::format(
        "--api {}: what can be measured is the engine itself (comm) and its face for tensors "
        "(group); c10d comes with the PyTorch plug-in. Set --api comm or --api group.",
        form.api));
  }
  std::vector<std::string> words = arguments_of(form);
  words.insert(words.begin(), "bench-collectives");
  exec(torch_program(), std::move(words));
}

}  // namespace

void add_bench(Commands& commands) {
  CLI::App* bench_command =
      add_command(commands.app, "bench", "measures this host",
                  "tutti bench collectives --op all_reduce --sizes 64:64M -n 2");
  bench_command->require_subcommand(1);
  CLI::App* command = add_command(
      *bench_command, "collectives", "measures collectives beside memcpy and other libraries",
      "tutti bench collectives --op all_reduce --sizes 64:64M -n 2 --peers");
  const std::shared_ptr<BenchForm> form = add_bench_form(*command);
  command->callback([&commands, form] { commands.chosen = [form] { return bench(*form); }; });
}

}  // namespace tutti::cli
