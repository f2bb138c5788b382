// torchrun's variables, checked.
#include "launch/environment.h"

#include <charconv>
#include <cstdlib>

namespace tutti::launch {
namespace {

/// Reads the numbers one by one and remembers what is wrong with them.
class Variables {
 public:
  Variables(const GetEnv& get, std::vector<core::Problem>& problems)
      : get_(get), problems_(problems) {}

  /// A whole number in [min, max]; a problem and `fallback` if it is none.
  int number(const std::string& name, int min, int max, int fallback) {
    const std::string text = get_(name).value_or("");
    int value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error == std::errc() && end == text.data() + text.size() && value >= min && value <= max) {
      return value;
    }
    problem(
        fmt::format("{} = \"{}\" is not a whole number from {} to {}. Launchers set it; unset "
                    "RANK, WORLD_SIZE and the rest to start the ranks here.",
                    name, text, min, max));
    return fallback;
  }
  [[nodiscard]] bool has(const std::string& name) const { return get_(name).has_value(); }
  [[nodiscard]] std::string text(const std::string& name, const std::string& fallback) const {
    return get_(name).value_or(fallback);
  }
  void problem(std::string text) { problems_.push_back({std::move(text)}); }

 private:
  const GetEnv& get_;
  std::vector<core::Problem>& problems_;
};

constexpr int kMostRanks = 1 << 20;

/// Whether what stands there is a complete set; otherwise names what is missing.
bool complete(Variables& vars) {
  std::string missing;
  const auto need = [&](const char* name) {
    if (!vars.has(name)) missing += (missing.empty() ? "" : ", ") + std::string(name);
  };
  need("RANK");
  need("WORLD_SIZE");
  if (vars.text("WORLD_SIZE", "") != "1") {
    need("MASTER_ADDR");
    need("MASTER_PORT");
  }
  if (vars.has("LOCAL_RANK") != vars.has("LOCAL_WORLD_SIZE")) {
    need("LOCAL_RANK");
    need("LOCAL_WORLD_SIZE");
  }
  if (missing.empty()) return true;
  vars.problem(
      fmt::format("The environment describes a rank only in part: {} missing beside the "
                  "others of torchrun's variables. Set all of them, or none.",
                  missing));
  return false;
}

}  // namespace

std::optional<std::string> process_env(const std::string& name) {
  const char* value = std::getenv(name.c_str());
  if (value == nullptr) return std::nullopt;
  return value;
}

std::optional<JoinOptions> from_environment(const GetEnv& get,
                                            std::vector<core::Problem>& problems) {
  Variables vars(get, problems);
  bool any = false;
  for (const char* name :
       {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"}) {
    any = any || vars.has(name);
  }
  if (!any || !complete(vars)) return std::nullopt;

  const std::size_t before = problems.size();
  JoinOptions join;
  join.ranks = vars.number("WORLD_SIZE", 1, kMostRanks, 1);
  join.rank = vars.number("RANK", 0, join.ranks - 1, 0);
  join.local_ranks = join.ranks;  // a launcher that says nothing about hosts has one
  join.local_rank = join.rank;
  if (vars.has("LOCAL_WORLD_SIZE")) {
    join.local_ranks = vars.number("LOCAL_WORLD_SIZE", 1, join.ranks, 1);
    join.local_rank = vars.number("LOCAL_RANK", 0, join.local_ranks - 1, 0);
  }
  join.master_addr = vars.text("MASTER_ADDR", join.master_addr);
  if (vars.has("MASTER_PORT")) join.master_port = vars.number("MASTER_PORT", 1, 65535, 0);
  const bool ours = vars.has("TUTTI_RUN_ID");
  // torchrun's agent keeps its store over a restart: the count keeps the keys of the attempts apart
  join.run_id = ours ? vars.text("TUTTI_RUN_ID", "0")
                     : vars.text("TORCHELASTIC_RUN_ID", "0") + "." +
                           vars.text("TORCHELASTIC_RESTART_COUNT", "0");
  join.from = ours ? "tutti" : "torchrun";
  join.agent_store = !ours && vars.text("TORCHELASTIC_USE_AGENT_STORE", "") == "True";
  if (ours && join.rank == 0 && vars.has("TUTTI_STORE_FD")) {
    join.store_listen_fd = vars.number("TUTTI_STORE_FD", 3, kMostRanks, -1);
  }
  if (problems.size() != before) return std::nullopt;
  return join;
}

}  // namespace tutti::launch
