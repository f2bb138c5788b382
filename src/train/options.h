// The [batch], [optim] and [run] sections of a config.
#pragma once

#include <array>
#include <cstdint>
#include <string>

namespace tutti::train {

struct BatchOptions {
  int micro = 4;         // sequences per rank and micro-batch
  int global = 16;       // sequences per optimizer step, over all ranks
  int token_budget = 0;  // tokens per micro-batch when packing = "balance"
};

struct OptimOptions {
  std::string kind = "adamw";  // adamw | sgd
  double lr = 6e-4;
  double min_lr = 6e-5;
  std::array<double, 2> betas = {0.9, 0.95};  // sgd: betas[0] is the momentum
  double eps = 1e-8;
  std::string schedule = "cosine";  // cosine | wsd | linear | constant
  int warmup_steps = 20;
  int decay_steps = 0;  // wsd: length of the last phase; 0: a fifth
  double weight_decay = 0.1;
  double clip = 1.0;  // 0: never
};

struct RunOptions {
  int steps = 100;
  std::uint64_t seed = 1;
  std::string dir = "runs/default";
  std::string precision = "fp32";   // fp32 | fp64 | bf16 | auto
  int eval_every = 50;              // 0: never
  int checkpoint_every = 50;        // 0: never
  int keep = 3;                     // last checkpoints kept, and the best one
  int threads = 0;                  // 0: cores / local ranks
  std::string bind = "core";        // core | numa | none
  std::string memory_limit;         // empty: what the host has
  std::string huge_pages = "auto";  // auto | off | require (of parameters and gradients)
  std::array<int, 2> trace = {3, 5};
};

}  // namespace tutti::train
