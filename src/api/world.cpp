// Joining, groups, and the collectives of the few-line API.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <exception>
#include <numeric>
#include <utility>

#include "api/handles.h"
#include "core/error.h"
#include "core/log.h"
#include "core/version.h"
#include "launch/environment.h"
#include "tensor/matrix_kernels.h"
#include "tensor/runtime.h"

namespace tutti {
namespace {

backend::ReduceOp native(Op op) {
  switch (op) {
    case Op::Sum:
      return backend::ReduceOp::Sum;
    case Op::Average:
      return backend::ReduceOp::Avg;
    case Op::Product:
      return backend::ReduceOp::Product;
    case Op::Min:
      return backend::ReduceOp::Min;
    case Op::Max:
      return backend::ReduceOp::Max;
  }
  throw std::invalid_argument("no such reduction");
}

}  // namespace

World::State::State(train::World joined)
    : world(std::move(joined)), exceptions(std::uncaught_exceptions()) {}

World::State::~State() {
  if (std::uncaught_exceptions() > exceptions) {
    world.comm.abort("its program ends with an error");
    return;
  }
  try {
    const auto everyone = groups.find("world");
    if (everyone != groups.end()) everyone->second.barrier();
  } catch (const std::exception& error) {
    core::log::warn("the job did not end in order: {}", error.what());
  }
}

Group World::State::group(const std::string& name, const std::vector<int>& ranks) {
  const auto found = groups.find(name);
  if (found != groups.end()) {
    const std::vector<int>& before = found->second.state().ranks;
    if (before == ranks) return found->second;
    throw core::ConfigError(
        fmt::format("the group \"{}\" has ranks [{}] and is asked for with [{}]: a name means the "
                    "same ranks all through a job. Give the second group a name of its own.",
                    name, fmt::join(before, ", "), fmt::join(ranks, ", ")));
  }
  Group made(std::make_shared<Group::State>(
      Group::State{.group = backend::Group(world.comm.group(name, ranks)),
                   .gathers = backend::Group(world.comm.group(name + " parameters", ranks)),
                   .ranks = ranks,
                   .world = &world.comm}));
  groups.emplace(name, made);
  return made;
}

World init(const InitOptions& options) {
  std::vector<core::Problem> problems;
  const auto join = launch::from_environment(launch::process_env, problems);
  core::throw_if_any(std::move(problems));
  tensor::use_processor_matrix_kernels();
  const std::vector<std::string> alike = {fmt::format("tutti {}", core::version()),
                                          fmt::format("LibTorch {}", tensor::torch_version())};
  auto state = std::make_shared<World::State>(
      train::join(join.value_or(launch::JoinOptions{}), alike, {.timeout_s = options.timeout_s},
                  {.bytes = options.arena_bytes},
                  {.seconds = std::min(options.timeout_s, train::WireUp{}.seconds)}));
  World world(std::move(state));
  static_cast<void>(world.group("world"));  // the last barrier's
  return world;
}

int World::rank() const { return state_->world.rank(); }
int World::size() const { return state_->world.ranks(); }
int World::local_rank() const { return state_->world.join.local_rank; }

Group World::group(const std::string& name) const {
  std::vector<int> all(static_cast<std::size_t>(size()));
  std::iota(all.begin(), all.end(), 0);
  return state_->group(name, all);
}

Group World::group(const std::string& name, const std::vector<int>& ranks) const {
  return state_->group(name, ranks);
}

int Group::rank() const { return state_->group.rank(); }
int Group::size() const { return state_->group.size(); }
const std::string& Group::name() const { return state_->group.name(); }

void Group::all_reduce(const at::Tensor& io, Op op) {
  state_->group.all_reduce(io, native(op), "all_reduce").wait();
}

void Group::broadcast(const at::Tensor& io, int root) {
  state_->group.broadcast(io, root, "broadcast").wait();
}

at::Tensor Group::all_gather(const at::Tensor& mine) {
  std::vector<std::int64_t> shape = mine.sizes().vec();
  shape.insert(shape.begin(), size());
  at::Tensor all = at::empty(shape, mine.options());
  const std::vector<std::int64_t> counts(static_cast<std::size_t>(size()), mine.numel());
  state_->group.all_gather(all, mine, counts, "all_gather").wait();
  return all;
}

void Group::barrier() { state_->group.barrier("barrier").wait(); }

}  // namespace tutti
