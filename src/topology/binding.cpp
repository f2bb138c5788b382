// Cores dealt to ranks.
#include "topology/binding.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

namespace tutti::topology {
namespace {

using Cpus = std::vector<int>;

/// Units [rank * U / R, (rank + 1) * U / R) for every rank: sizes differ by one at most. Needs
/// units >= ranks.
std::vector<Cpus> deal_runs(const std::vector<Cpus>& units, int ranks) {
  std::vector<Cpus> dealt(static_cast<std::size_t>(ranks));
  const std::size_t count = units.size();
  for (std::size_t rank = 0; rank < dealt.size(); ++rank) {
    for (std::size_t u = rank * count / dealt.size(); u < (rank + 1) * count / dealt.size(); ++u) {
      dealt[rank].insert(dealt[rank].end(), units[u].begin(), units[u].end());
    }
    std::sort(dealt[rank].begin(), dealt[rank].end());
  }
  return dealt;
}

std::vector<Cpus> by_core(const std::vector<Cpus>& cores, const std::vector<Cpus>& cpus,
                          int ranks) {
  const auto wanted = static_cast<std::size_t>(ranks);
  if (wanted <= cores.size()) return deal_runs(cores, ranks);
  if (wanted <= cpus.size()) return deal_runs(cpus, ranks);
  std::vector<Cpus> dealt;
  for (std::size_t rank = 0; rank < wanted; ++rank) dealt.push_back(cpus[rank % cpus.size()]);
  return dealt;
}

std::vector<Cpus> by_numa(const Host& host, int ranks) {
  std::vector<int> nodes;  // that have cores
  for (const Core& core : host.cores) nodes.push_back(core.numa);
  std::sort(nodes.begin(), nodes.end());
  nodes.erase(std::unique(nodes.begin(), nodes.end()), nodes.end());
  std::vector<Cpus> dealt;
  for (std::size_t rank = 0; rank < static_cast<std::size_t>(ranks); ++rank) {
    const int node = nodes[rank * nodes.size() / static_cast<std::size_t>(ranks)];
    Cpus cpus;
    for (const Core& core : host.cores) {
      if (core.numa == node) cpus.insert(cpus.end(), core.cpus.begin(), core.cpus.end());
    }
    std::sort(cpus.begin(), cpus.end());
    dealt.push_back(std::move(cpus));
  }
  return dealt;
}

}  // namespace

Binding assign(const Host& host, int local_ranks, std::string_view policy) {
  if (local_ranks < 1)
    throw std::invalid_argument(fmt::format("{} ranks cannot be bound", local_ranks));
  if (host.cores.empty()) throw std::invalid_argument("a host without cores cannot run ranks");
  std::vector<Cpus> cores;
  std::vector<Cpus> cpus;
  for (const Core& core : host.cores) {
    cores.push_back(core.cpus);
    for (const int cpu : core.cpus) cpus.push_back({cpu});
  }
  Binding binding;
  binding.threads = std::max(1, static_cast<int>(cores.size()) / local_ranks);
  binding.shared = static_cast<std::size_t>(local_ranks) > cpus.size();
  if (policy == "core") {
    binding.cpus = by_core(cores, cpus, local_ranks);
  } else if (policy == "numa") {
    binding.cpus = by_numa(host, local_ranks);
  } else if (policy == "none") {
    binding.cpus.resize(static_cast<std::size_t>(local_ranks));
  } else {
    throw std::invalid_argument(fmt::format("\"{}\" is no way of binding", policy));
  }
  return binding;
}

}  // namespace tutti::topology
