// Starting peers through the shell's pipe and reading their lines.
#include "cli/bench_peers.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>

#include "core/error.h"
#include "core/json.h"

namespace tutti::cli {
namespace {

namespace fs = std::filesystem;

std::string quoted(const std::string& word) {
  std::string out = "'";
  for (const char c : word) out += c == '\'' ? "'\\''" : std::string(1, c);
  return out + "'";
}

struct Output {
  std::string text;
  int status = 0;
};

Output run(const std::vector<std::string>& command) {
  std::string line = "exec 2>&1; OMP_NUM_THREADS=1 timeout 300";
  for (const std::string& word : command) line += " " + quoted(word);
  Output output;
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(::popen(line.c_str(), "r"),
                                                   [](FILE*) { return 0; });
  if (!pipe) core::throw_errno("starting a peer");
  std::array<char, 4096> bytes;
  while (const std::size_t n = std::fread(bytes.data(), 1, bytes.size(), pipe.get())) {
    output.text.append(bytes.data(), n);
  }
  output.status = ::pclose(pipe.get());
  return output;
}

bool in_path(const char* program) {
  return run({"sh", "-c", fmt::format("command -v {}", program)}).status == 0;
}

std::optional<comm::Collective> collective(const std::string& name) {
  for (const auto op :
       {comm::Collective::AllReduce, comm::Collective::AllGather, comm::Collective::Broadcast}) {
    if (comm::name(op) == name) return op;
  }
  return std::nullopt;
}

}  // namespace

std::vector<Peer> installed_peers(const std::string& folder, int ranks, std::size_t largest,
                                  std::vector<std::string>& missing) {
  std::vector<Peer> peers;
  const std::string n = std::to_string(ranks), most = std::to_string(largest);
  const fs::path sources = fs::path("bench") / "peers";
  if (!fs::exists(sources)) {
    throw core::ConfigError("--peers: bench/peers is not here. Run it in the source tree.");
  }
  // An MPI is named by what its compiler wrapper says of itself.
  if (!in_path("mpicc") || !in_path("mpirun")) {
    missing.emplace_back("openmpi, mpich: mpicc and mpirun are not in PATH");
  } else {
    const std::string program = folder + "/collectives_mpi";
    const Output built =
        run({"mpicc", "-O2", (sources / "collectives_mpi.c").string(), "-o", program});
    if (built.status != 0) throw core::RunError("mpicc failed: " + built.text);
    const bool open = run({"mpirun", "--version"}).text.find("Open MPI") != std::string::npos;
    Peer peer{open ? "openmpi" : "mpich", {"mpirun", "-n", n}};
    if (open) {
      peer.command.insert(peer.command.end(), {"--allow-run-as-root", "--oversubscribe"});
    }
    peer.command.insert(peer.command.end(), {program, most});
    peers.push_back(std::move(peer));
  }
  const fs::path venv = fs::path(".deps") / "venv" / "bin" / "python";
  const std::string python = fs::exists(venv) ? venv.string() : "python3";
  if (run({python, "-c", "import torch.distributed"}).status != 0) {
    missing.push_back(fmt::format("gloo: {} has no torch", python));
  } else {
    peers.push_back({"gloo",
                     {python, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", n,
                      (sources / "collectives_gloo.py").string(), "--max-bytes", most}});
  }
  return peers;
}

std::vector<BenchRow> run_peer(const Peer& peer, int ranks) {
  const Output output = run(peer.command);
  std::vector<BenchRow> rows;
  std::size_t begin = 0;
  while (begin < output.text.size()) {
    const std::size_t end = std::min(output.text.find('\n', begin), output.text.size());
    const std::string line = output.text.substr(begin, end - begin);
    begin = end + 1;
    if (line.empty() || line.front() != '{') continue;
    const core::Json json = core::Json::parse(line, nullptr, false);
    const auto op = json.is_object() ? collective(json.value("op", "")) : std::nullopt;
    if (!op) continue;
    BenchRow row;
    row.op = *op;
    row.api.set(peer.api);
    row.bytes = json.value("bytes", std::size_t{0});
    row.p10_us = json.value("time_us_p10", 0.0);
    row.p50_us = json.value("time_us_p50", 0.0);
    row.wrong = json.value("wrong", std::size_t{0});
    row.algbw_GBps = row.p50_us > 0 ? static_cast<double>(row.bytes) / row.p50_us / 1e3 : 0;
    row.busbw_GBps = row.algbw_GBps * bus_factor(row.op, ranks);
    rows.push_back(row);
  }
  if (output.status != 0 || rows.empty()) {
    const std::size_t tail = output.text.size() - std::min<std::size_t>(output.text.size(), 600);
    throw core::RunError(fmt::format("{} failed ({}): {}", peer.api, fmt::join(peer.command, " "),
                                     output.text.substr(tail)));
  }
  return rows;
}

}  // namespace tutti::cli
