// Groups: the lowest rank makes the control memory and hands it to the members; nobody waits for
// more.
#include "comm/world.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <stdexcept>

#include "comm/probe.h"
#include "comm/world_state.h"
#include "core/error.h"

namespace tutti::comm {

World::State::State(std::shared_ptr<Engine> engine, double timeout_s)
    : engine_(std::move(engine)), timeout_s_(timeout_s) {}

World::State::~State() { engine_->leave(); }

ControlBlock World::State::control_block(const std::string& name, const std::vector<int>& members,
                                         int credits) {
  const int ranks = static_cast<int>(members.size());
  const std::size_t bytes = ControlBlock::bytes(ranks, credits);
  std::uint64_t key = text_hash(fmt::format("{} of {}", name, fmt::join(members, " ")));
  key += made_[key]++;  // a second group of the same name is another one
  if (members.front() == engine_->rank()) {
    const core::Fd fd = create_shared_memory("tutti-control", bytes);
    Message message;
    message.kind = MessageKind::Group;
    message.key = key;
    message.bytes = bytes;
    message.number = static_cast<std::uint32_t>(ranks);
    message.set_text(name);
    for (const int member : members) {
      if (member != engine_->rank()) engine_->peers().tell(member, message, fd.get());
    }
    return {engine_->mappings().map(fd.get(), bytes), ranks, credits};
  }
  const core::Deadline deadline{core::Seconds(timeout_s_)};
  for (int dead = -1;;) {
    const bool last_look = dead >= 0 || engine_->peers().left(members.front()) || deadline.passed();
    if (auto memory = engine_->peers().take_group(members.front(), key, bytes)) {
      return {std::move(memory), ranks, credits};
    }
    if (last_look) {
      const int culprit = dead >= 0 ? dead : members.front();
      throw core::PeerError(
          culprit,
          fmt::format("rank {} waited {:.1f} s for rank {} to make group {} (ranks {}): "
                      "rank {} {}. Every member must make the same groups in the same order.",
                      engine_->rank(), (deadline.length() - deadline.left()).count(),
                      members.front(), name, fmt::join(members, " "), culprit,
                      dead >= 0           ? "died"
                      : deadline.passed() ? "did not come"
                                          : "has left"));
    }
    dead = engine_->peers().watch(20);  // returns as soon as a packet comes
  }
}

void World::State::join() {
  if (engine_->size() == 1) return;
  std::vector<int> all(engine_->size());
  for (int r = 0; r < engine_->size(); ++r) all[r] = r;
  engine_->set_world(control_block("world", all, 0));
}

void World::State::meet() {
  if (engine_->size() == 1) return;
  std::vector<int> all(engine_->size());
  for (int r = 0; r < engine_->size(); ++r) all[r] = r;
  Communicator everybody(
      std::make_shared<Communicator::State>(engine_, "world", all, engine_->world()));
  everybody.barrier("wire-up").wait();
  probe(everybody, engine_->world());
}

Communicator World::State::group(const std::string& name, const std::vector<int>& world_ranks) {
  const bool ascending =
      std::is_sorted(world_ranks.begin(), world_ranks.end(), std::less_equal<>());
  const bool member =
      std::find(world_ranks.begin(), world_ranks.end(), engine_->rank()) != world_ranks.end();
  if (world_ranks.empty() || !ascending || world_ranks.front() < 0 ||
      world_ranks.back() >= engine_->size() || !member) {
    throw std::invalid_argument(
        fmt::format("group {} of ranks {}: they must ascend, lie in [0, {}) and include rank {}",
                    name, fmt::join(world_ranks, " "), engine_->size(), engine_->rank()));
  }
  ControlBlock block;
  if (world_ranks.size() > 1) {
    block = control_block("group " + name, world_ranks, Communicator::State::kCredits);
  }
  return Communicator(
      std::make_shared<Communicator::State>(engine_, name, world_ranks, std::move(block)));
}

int World::rank() const { return state_->engine().rank(); }
int World::size() const { return state_->engine().size(); }

Communicator World::group(const std::string& name, const std::vector<int>& world_ranks) {
  return state_->group(name, world_ranks);
}

void World::abort(const std::string& why) {
  if (size() == 1) return;
  state_->engine().abort(rank(), fmt::format("rank {} stops the run: {}", rank(), why));
}

void World::set_activity(std::string_view what) {
  if (size() == 1) return;
  RankLines::Activity& activity = state_->engine().world().lines(rank()).activity;
  activity.since.store(ticks(), std::memory_order_relaxed);
  activity.text.set(what);
}

}  // namespace tutti::comm
