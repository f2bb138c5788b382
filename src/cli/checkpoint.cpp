// tutti checkpoint: looks at checkpoints and checks them, without LibTorch.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <memory>

#include "checkpoint/reader.h"
#include "cli/commands.h"
#include "core/error.h"
#include "core/safetensors.h"
#include "core/units.h"

namespace tutti::cli {
namespace {

namespace fs = std::filesystem;

std::uint64_t bytes_of(const checkpoint::TensorEntry& tensor) {
  return static_cast<std::uint64_t>(tensor.elements()) *
         core::safetensors_element_bytes(tensor.dtype);
}

int show(const fs::path& path) {
  const fs::path folder = checkpoint::find_checkpoint(path);
  const checkpoint::Index index = checkpoint::read_index(folder);
  std::uint64_t bytes = 0;
  std::size_t width = 0;
  for (const checkpoint::TensorEntry& tensor : index.tensors) {
    bytes += bytes_of(tensor);
    width = std::max(width, tensor.name.size());
  }
  fmt::print("checkpoint  {}\nstep        {}\nvalid loss  {}\nsamples     {}\nseed        {}\n",
             folder.string(), index.step,
             index.valid_loss ? fmt::format("{:.4f}", *index.valid_loss) : "not measured",
             core::format_count(index.samples), index.seed);
  fmt::print("model       {}\nwritten by  tutti {}, layout {}\ntensors     {}, {}\n\n",
             index.model.dump(), index.tutti_version, index.layout.dump(), index.tensors.size(),
             core::format_bytes(bytes));
  for (const checkpoint::TensorEntry& tensor : index.tensors) {
    fmt::print("{:<{}}  {:<4}  {:<16}  {:>10}  {} {}\n", tensor.name, width, tensor.dtype,
               fmt::format("[{}]", fmt::join(tensor.shape, ", ")),
               core::format_bytes(bytes_of(tensor)), tensor.pieces.size(),
               tensor.pieces.size() == 1 ? "piece" : "pieces");
  }
  return 0;
}

int verify(const fs::path& path) {
  checkpoint::Reader reader(checkpoint::find_checkpoint(path));
  reader.verify_all();
  std::size_t pieces = 0;
  for (const auto& tensor : reader.index().tensors) pieces += tensor.pieces.size();
  fmt::print("{}: step {}, {} tensors in {} pieces, all as they were written\n",
             reader.folder().string(), reader.index().step, reader.index().tensors.size(), pieces);
  return 0;
}

void add_one(Commands& commands, CLI::App& group, const std::string& name, const std::string& does,
             int (*action)(const fs::path&)) {
  CLI::App* command =
      add_command(group, name, does, fmt::format("tutti checkpoint {} runs/shakespeare", name));
  auto path = std::make_shared<std::string>();
  command->add_option("PATH", *path, "a checkpoint, or a run: its newest one then")->required();
  command->callback(
      [&commands, path, action] { commands.chosen = [path, action] { return action(*path); }; });
}

}  // namespace

void add_checkpoint(Commands& commands) {
  CLI::App* group = add_command(commands.app, "checkpoint", "looks at checkpoints and checks them",
                                "tutti checkpoint show runs/shakespeare");
  group->require_subcommand(1);
  add_one(commands, *group, "show", "prints step, loss and every tensor", show);
  add_one(commands, *group, "verify", "reads every byte and compares its hash", verify);
  for (const char* name : {"export", "import"}) {
    CLI::App* command = group->add_subcommand(
        name, "(not built yet) converts checkpoints to and from Hugging Face's form");
    command->allow_extras();
    command->callback([&commands, name] {
      commands.chosen = [name]() -> int {
        throw core::ConfigError(
            fmt::format("tutti checkpoint {} is not built yet: it converts checkpoints. What this "
                        "version can do stands in tutti checkpoint --help.",
                        name));
      };
    });
  }
}

}  // namespace tutti::cli
