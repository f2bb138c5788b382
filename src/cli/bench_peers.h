// The same collectives by other libraries, run as programs of their own beside ours.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "cli/bench_run.h"

namespace tutti::cli {

/// A library that is installed here, and the command that prints one JSON line per operation and
/// size.
struct Peer {
  std::string api;  // openmpi, mpich, gloo
  std::vector<std::string> command;
};

/// What is installed, looked for in PATH and in .deps/venv below the current directory; the sources
/// are bench/peers there. Programs are compiled into `folder`. `missing` gets a sentence per peer
/// that is not there.
std::vector<Peer> installed_peers(const std::string& folder, int ranks, std::size_t largest,
                                  std::vector<std::string>& missing);

/// Runs it once. Rows have op, api, bytes, p10, p50 and wrong only. Throws core::RunError with the
/// peer's last words if it fails.
std::vector<BenchRow> run_peer(const Peer& peer, int ranks);

}  // namespace tutti::cli
