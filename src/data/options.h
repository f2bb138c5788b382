// The [data] and [balance] sections of a config.
#pragma once

#include <string>
#include <vector>

namespace tutti::data {

struct DataOptions {
  std::vector<std::string> train;  // token files; a single string in the config is a list of one
  std::vector<double> weights;     // one per file; empty: by size
  double valid = 0.05;             // share held out at the end of every document
  std::string valid_file;          // or a file of its own; then `valid` is 0
  int sequence = 256;              // tokens
  std::string packing = "none";    // none | pad | pack | balance
  int epochs = 0;                  // 0: as many as steps need
};

struct BalanceOptions {
  int queue = 64;
  std::string speed = "equal";  // equal | measured
};

}  // namespace tutti::data
