// What the rank commands (train, dump) have in common: a config wired up, from the top to the
// bottom, once.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "backend/connect.h"
#include "config/run_config.h"
#include "core/trace.h"
#include "data/corpus.h"
#include "data/loader.h"
#include "launch/environment.h"
#include "mesh/mesh.h"
#include "parallel/replica.h"
#include "parallel/stage.h"
#include "spec/model_spec.h"
#include "train/optimizer.h"
#include "train/plan_file.h"
#include "train/startup.h"
#include "train/step.h"
#include "train/world.h"

namespace tutti::cli {

/// Every part of a run on one rank, in the order in which they need each other. Made by wire();
/// stays where it is, since parts point at each other.
struct RankJob {
  train::StartupTimes startup;
  config::RunConfig config;
  launch::JoinOptions join;
  std::shared_ptr<const data::Corpus> corpus;
  spec::ModelSpec spec;
  mesh::Layout layout;
  core::Trace trace{0};
  std::optional<train::World> world;
  std::optional<mesh::Mesh> mesh;
  backend::Groups groups;
  train::Plan plan;
  std::optional<parallel::Replica> replica;
  std::optional<parallel::Stage> stage;
  std::optional<train::Optimizer> optimizer;
  parallel::Fault fault = parallel::Fault::None;

  [[nodiscard]] data::BatchShape shape() const;
  [[nodiscard]] train::StepParts step_parts();
  [[nodiscard]] std::unique_ptr<data::Loader> loader(std::uint64_t first_sample);
};

/// The rank this process is, from its environment. Throws core::ConfigError for impossible
/// variables.
launch::JoinOptions join_options();

/// Config, data and model are checked again where they are used; `old_plan` (may be empty) is a
/// plan.json whose decisions are taken over if the layout is the same. Parameters are left zero.
std::unique_ptr<RankJob> wire(const config::RunConfig& config,
                              const std::filesystem::path& old_plan);

}  // namespace tutti::cli
