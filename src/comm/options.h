// The [comm] section of a config.
#pragma once

#include <string>

namespace tutti::comm {

struct CommOptions {
  double timeout_s = 600;  // of one collective
  std::string transport = "auto";
  std::string algorithm = "auto";
  std::string order = "fast";
  std::string wire = "fp32";
  bool allow_staging = false;
  bool dry = false;  // benchmarks only: transfers replaced by nothing
};

}  // namespace tutti::comm
