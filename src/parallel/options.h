// The [parallel] section of a config.
#pragma once

#include <string>
#include <vector>

namespace tutti::parallel {

struct ParallelOptions {
  int dp = 0;  // 0: fills what the other axes leave
  int tp = 1;
  int pp = 1;
  int cp = 1;
  int ep = 1;
  int zero = 1;
  int zero_shard = 0;
  bool share_pages = true;
  bool overlap = true;
  bool sequence = true;
  std::string schedule = "1f1b";
  int chunks = 1;
  std::string split = "auto";  // or "[2, 2]": layers per stage
  std::string recompute = "none";
};

}  // namespace tutti::parallel
