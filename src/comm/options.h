// The [comm] section of a config.
#pragma once

#include <cstdint>
#include <string>

namespace tutti::comm {

struct CommOptions {
  double timeout_s = 600;  // of one collective
  std::string transport = "auto";
  std::string algorithm = "auto";  // forced for every operation that knows it
  std::string order = "fast";
  std::string wire = "fp32";
  bool allow_staging = false;  // plain memory where the arena cannot grow, instead of an error
  bool dry = false;            // benchmarks only: transfers replaced by nothing
  // Not keys of the config:
  std::string table;         // rank 0's table of algorithms as JSON (ChoiceTable); empty: measured
  std::uint64_t delays = 0;  // tests only: a seed for random delays of whoever runs operations
  std::string flight_file;   // where the flight recorder goes on failure and SIGUSR1; empty: stderr
                             // on SIGUSR1 only
};

}  // namespace tutti::comm
