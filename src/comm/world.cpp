// Groups: the lowest rank makes the control memory and hands it to the members; nobody waits for
// more.
#include "comm/world.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <stdexcept>

#include "comm/probe.h"
#include "comm/recorder.h"
#include "comm/world_state.h"
#include "core/error.h"

namespace tutti::comm {
namespace {

// While ranks meet, wire-up's deadline holds and no algorithm is forced: the world's own block has
// no room for messages.
class Meeting {
 public:
  Meeting(Engine& engine, double timeout_s) : engine_(engine), before_(engine.options()) {
    CommOptions options = before_;
    options.timeout_s = timeout_s;
    options.algorithm = "auto";
    engine_.set_options(options);
  }
  ~Meeting() { engine_.set_options(before_); }
  Meeting(const Meeting&) = delete;
  Meeting& operator=(const Meeting&) = delete;

 private:
  Engine& engine_;
  CommOptions before_;
};

// Locked until the pointer to itself is set too: the constructor shows it to the executor thread.
std::shared_ptr<Communicator::State> make_state(const std::shared_ptr<Engine>& engine,
                                                const std::string& name,
                                                const std::vector<int>& members,
                                                ControlBlock block) {
  const Engine::Lock lock(*engine);
  return std::make_shared<Communicator::State>(engine, name, members, std::move(block));
}

}  // namespace

World::State::State(std::shared_ptr<Engine> engine, const WireUpOptions& options)
    : engine_(std::move(engine)), options_(options) {}

World::State::~State() { engine_->leave(); }

// Nothing is made in a run that was aborted; the next epoch is another run.
void World::State::check_world() const {
  const ControlBlock& world = engine_->world();
  if (world.ranks() == 0 || world_epoch_ != epoch_) return;
  if (const auto abort = world.aborted()) throw core::PeerError(abort->culprit, abort->text);
}

ControlBlock World::State::control_block(const std::string& name, const std::vector<int>& members,
                                         int creator, int ranks, int credits) {
  engine_->check_process();
  check_world();
  const std::size_t bytes = ControlBlock::bytes(ranks, credits);
  std::uint64_t key = text_hash(fmt::format("{} of {}", name, fmt::join(members, " ")), epoch_);
  key += made_[key]++;  // a second group of the same name is another one
  if (creator == engine_->rank()) {
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
  const core::Deadline deadline{core::Seconds(options_.wire_up_timeout_s)};
  for (;;) {
    Engine::Lock lock(*engine_);
    check_world();
    Peers& peers = engine_->peers();
    // Known before the last look: what a rank sent before it ended has come by then.
    const auto dead = std::find_if(members.begin(), members.end(),
                                   [&](int r) { return r != engine_->rank() && peers.dead(r); });
    const bool last_look = dead != members.end() || peers.left(creator) || deadline.passed();
    if (auto memory = peers.take_group(creator, key, bytes)) {
      return {std::move(memory), ranks, credits};
    }
    if (last_look) {
      const int culprit = dead != members.end() ? *dead : creator;
      throw core::PeerError(
          culprit,
          fmt::format("rank {} waited {:.1f} s for rank {} to make group {} (ranks {}): "
                      "rank {} {}. Every member must make the same groups in the same order.",
                      engine_->rank(), (deadline.length() - deadline.left()).count(), creator, name,
                      fmt::join(members, " "), culprit,
                      dead != members.end() ? "died"
                      : deadline.passed()   ? "did not come"
                                            : "has left"));
    }
    peers.look(5);  // until a packet comes; a death that it sees is still to be reported
    lock.give_way();
  }
}

void World::State::join(const std::vector<int>& members, const std::vector<int>& makers,
                        std::uint32_t epoch) {
  epoch_ = world_epoch_ = epoch;
  if (members.size() == 1) return;
  engine_->set_world(control_block("world", members, makers.front(), engine_->size(), 0), members);
}

Communicator World::State::everybody() {
  // A group that uses the world's own block: it is there before any group can be made.
  std::vector<int> all = engine_->members();
  if (static_cast<int>(all.size()) == engine_->size()) {
    return Communicator(make_state(engine_, "world", all, engine_->world()));
  }
  return group("world of this epoch", all);
}

void World::State::meet(int maker) {
  if (engine_->members().size() < 2) return;
  Communicator world = everybody();
  world.barrier("wire-up").wait();
  // Figures outlive epochs; a world of one had none.
  if (engine_->world().figures()[0].load() == 0) probe(world, engine_->world());
  agree_on_table(world, maker);
}

// One rank's text is everybody's: what it was given, what it had in the epoch before, or else what
// all measure together.
void World::State::agree_on_table(Communicator& world, int maker) {
  const auto& members = engine_->members();
  const int root =
      static_cast<int>(std::find(members.begin(), members.end(), maker) - members.begin());
  std::string text;
  if (engine_->rank() == maker) {
    text = epoch_ == 0 ? options_.comm.table : engine_->table().json();
  }
  engine_->set_table({});  // until all have the new one
  std::int64_t bytes = static_cast<std::int64_t>(text.size());
  world.broadcast({&bytes, 1, DType::Int64}, root, "table of algorithms").wait();
  if (bytes == 0) {
    // More ranks than cores: times would tell of the scheduler, so the model decides.
    if (!engine_->crowded()) engine_->set_table(tune(world, *engine_, 0.05));
    return;
  }
  text.resize(static_cast<std::size_t>(bytes));
  world.broadcast({text.data(), text.size(), DType::UInt8}, root, "table of algorithms").wait();
  engine_->set_table(ChoiceTable::parse(text));
}

void World::State::next_epoch(const std::vector<int>& members, const std::vector<int>& makers,
                              const char* why) {
  ++epoch_;
  const ControlBlock before = engine_->world();
  const auto ended = std::make_exception_ptr(core::RunError(
      fmt::format("the world of rank {} was {}: groups made before have ended. Make new ones.",
                  engine_->rank(), why)));
  ControlBlock block = control_block("world", members, makers.front(), engine_->size(), 0);
  for (std::size_t i = 0; before.ranks() > 0 && i < block.figures().size(); ++i) {
    block.figures()[i].store(before.figures()[i].load());  // the same values from every rank
  }
  engine_->set_world(std::move(block), members, ended);
  world_epoch_ = epoch_;
  const Meeting meeting(*engine_, options_.wire_up_timeout_s);
  meet(makers.front());
}

void World::State::shrink(const std::vector<int>& survivors) {
  engine_->check_process();
  const std::vector<int> members = engine_->members();
  const bool includes_me =
      std::find(survivors.begin(), survivors.end(), engine_->rank()) != survivors.end();
  if (!includes_me || !std::is_sorted(survivors.begin(), survivors.end(), std::less_equal<>()) ||
      !std::includes(members.begin(), members.end(), survivors.begin(), survivors.end())) {
    throw std::invalid_argument(
        fmt::format("shrink to ranks {}: they must ascend, be members ({}) and include rank {}",
                    fmt::join(survivors, " "), fmt::join(members, " "), engine_->rank()));
  }
  const core::Deadline deadline{core::Seconds(options_.wire_up_timeout_s)};
  for (const int rank : members) {
    if (std::find(survivors.begin(), survivors.end(), rank) != survivors.end()) continue;
    const Engine::Lock lock(*engine_);
    engine_->peers().evict(rank, deadline);
  }
  next_epoch(survivors, survivors, "shrunk");
}

Communicator World::State::group(const std::string& name, const std::vector<int>& world_ranks) {
  const bool ascending =
      std::is_sorted(world_ranks.begin(), world_ranks.end(), std::less_equal<>());
  const bool member =
      std::find(world_ranks.begin(), world_ranks.end(), engine_->rank()) != world_ranks.end();
  const std::vector<int>& all = engine_->members();
  if (world_ranks.empty() || !ascending || !member ||
      !std::includes(all.begin(), all.end(), world_ranks.begin(), world_ranks.end())) {
    throw std::invalid_argument(
        fmt::format("group {} of ranks {}: they must ascend, be members of the world ({}) and "
                    "include rank {}",
                    name, fmt::join(world_ranks, " "), fmt::join(all, " "), engine_->rank()));
  }
  ControlBlock block;
  if (world_ranks.size() > 1) {
    block = control_block("group " + name, world_ranks, world_ranks.front(),
                          static_cast<int>(world_ranks.size()), Communicator::State::kEnvelopes);
  }
  return Communicator(make_state(engine_, name, world_ranks, std::move(block)));
}

int World::rank() const { return state_->engine().rank(); }
int World::size() const { return state_->engine().size(); }

Communicator World::group(const std::string& name, const std::vector<int>& world_ranks) {
  return state_->group(name, world_ranks);
}

void World::shrink(const std::vector<int>& survivors) { state_->shrink(survivors); }
void World::grow(Store& store, const std::vector<int>& joiners) { state_->grow(store, joiners); }
const std::vector<int>& World::members() const { return state_->engine().members(); }
std::uint32_t World::epoch() const { return state_->epoch(); }
const ChoiceTable& World::table() const { return state_->engine().table(); }
void World::dump_on_signal() { count_dump_signals(); }

MemoryReport World::memory() const {
  const Arena::Report arena = state_->engine().arena().report();
  return {arena.segments, arena.reserved, arena.used, arena.largest_free,
          mapped_pss({"/memfd:tutti-arena", "/memfd:tutti-control"})};
}

void World::abort(const std::string& why) {
  if (size() == 1) return;
  state_->engine().check_process();
  const Engine::Lock lock(state_->engine());
  state_->engine().abort(rank(), fmt::format("rank {} stops the run: {}", rank(), why));
}

void World::set_activity(std::string_view what) {
  if (size() == 1) return;
  const Engine::Lock lock(state_->engine());
  RankLines::Activity& activity = state_->engine().world().lines(rank()).activity;
  activity.since.store(ticks(), std::memory_order_relaxed);
  activity.text.set(what);
}

}  // namespace tutti::comm
