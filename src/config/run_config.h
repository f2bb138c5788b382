// A run's whole configuration: one options struct per section of the TOML file, each owned by the
// module that obeys it.
#pragma once

#include "comm/options.h"
#include "data/options.h"
#include "parallel/options.h"
#include "spec/options.h"
#include "train/options.h"

namespace tutti::config {

struct RunConfig {
  spec::ModelOptions model;
  data::DataOptions data;
  train::BatchOptions batch;
  train::OptimOptions optim;
  parallel::ParallelOptions parallel;
  comm::CommOptions comm;
  data::BalanceOptions balance;
  train::RunOptions run;
};

}  // namespace tutti::config
