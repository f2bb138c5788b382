// Trees of schedule/tree.h. All ranks keep one clock: in round t a node at depth d of a tree of
// height H sends chunk t - (H - d) up and, on the way down, chunk t - (H + d): what it takes in one
// round it passes on in the next, and one slot is enough.
#include "schedule/tree.h"

#include <algorithm>
#include <functional>

#include "schedule/shares.h"

namespace tutti::schedule {
namespace {

// Members [low, high) with low even; returns their root. Roots are odd, so that leaves are even.
int plant(BinaryTree& tree, int low, int high, int parent, int depth) {
  if (low >= high) return -1;
  const int size = high - low;
  const int root = size == 1 ? low : low + (size / 2 | 1);
  tree.height = std::max(tree.height, depth);
  BinaryTree::Node& node = tree.nodes[static_cast<std::size_t>(root)];
  node.parent = parent;
  node.depth = depth;
  if (size > 1)
    node.children = {plant(tree, low, root, root, depth + 1),
                     plant(tree, root + 1, high, root, depth + 1)};
  return root;
}

BinaryTree renamed(const BinaryTree& tree, const std::function<int(int)>& member_at) {
  const auto name = [&](int position) { return position < 0 ? -1 : member_at(position); };
  BinaryTree result = tree;
  result.root = name(tree.root);
  for (std::size_t position = 0; position < tree.nodes.size(); ++position) {
    const BinaryTree::Node& node = tree.nodes[position];
    result.nodes[static_cast<std::size_t>(name(static_cast<int>(position)))] = {
        name(node.parent), {name(node.children[0]), name(node.children[1])}, node.depth};
  }
  return result;
}

// One half of the data and the tree it goes through, seen from one rank.
struct Lane {
  int parent = -1;  // ranks; -1: none
  std::array<int, 2> children = {-1, -1};
  int depth = 0;
  bool second_child = false;  // of the parent
  Shares chunks;
};

// When a node at depth 0 would pass chunk 0 to a parent, and when it passes it to its children.
constexpr int kNever = 1 << 30;
struct Clock {
  int up = kNever;
  int down = kNever;
};

// One rank's entries of one round.
class Round {
 public:
  Round(StepBuilder& out, const Clock& clock, int round)
      : out_(out), clock_(clock), round_(round) {}

  // Sends stand in the order in which the receiver takes them: first what it takes in the first
  // half of the round, then sums of second children. Both lanes may join the same two ranks, and
  // messages of a pair do not overtake.
  void add(const std::array<Lane, 2>& lanes) const {
    out_.round(2 * round_);
    for (const Lane& lane : lanes) {
      if (!lane.second_child) send_up(lane);
      send_down(lane);
      take_up(lane, 0);
      take_down(lane);
    }
    for (const Lane& lane : lanes) {
      if (lane.second_child) send_up(lane);
    }
    out_.round(2 * round_ + 1);  // one slice takes one sum at a time
    for (const Lane& lane : lanes) take_up(lane, 1);
  }

 private:
  [[nodiscard]] int chunk_up(const Lane& lane) const { return round_ - clock_.up + lane.depth; }
  [[nodiscard]] int chunk_down(const Lane& lane) const { return round_ - clock_.down - lane.depth; }
  static bool has(const Lane& lane, int chunk) {
    return chunk >= 0 && chunk < static_cast<int>(lane.chunks.size());
  }
  static Slice slice(const Lane& lane, int chunk) {
    return lane.chunks[static_cast<std::size_t>(chunk)];
  }
  void send_up(const Lane& lane) const {
    const int chunk = chunk_up(lane);
    if (lane.parent >= 0 && has(lane, chunk)) out_.send(lane.parent, slice(lane, chunk));
  }
  void take_up(const Lane& lane, std::size_t child) const {
    const int chunk = chunk_up(lane) + 1;  // children are one round ahead
    if (lane.children[child] >= 0 && has(lane, chunk)) {
      out_.recv_add(lane.children[child], slice(lane, chunk));
    }
  }
  void send_down(const Lane& lane) const {
    const int chunk = chunk_down(lane);
    if (!has(lane, chunk)) return;
    for (const int child : lane.children) {
      if (child >= 0) out_.send(child, slice(lane, chunk));
    }
  }
  void take_down(const Lane& lane) const {
    const int chunk = chunk_down(lane) + 1;  // the parent is one round ahead
    if (lane.parent >= 0 && has(lane, chunk)) out_.recv(lane.parent, slice(lane, chunk));
  }

  StepBuilder& out_;
  const Clock& clock_;
  int round_;
};

void add_rounds(StepBuilder& out, const std::array<Lane, 2>& lanes, const Clock& clock,
                int rounds) {
  out.next();
  for (int round = 0; round < rounds; ++round) Round(out, clock, round).add(lanes);
  out.next();
}

std::array<Shares, 2> halves_in_chunks(Slice data, int chunks) {
  const Shares halves = even_shares(data, 2);
  return {even_shares(halves[0], chunks), even_shares(halves[1], chunks)};
}

// The lane of member `member` of `tree`; `rank_at` names a member's rank, `lift` is added to its
// depth.
Lane lane_of(const BinaryTree& tree, int member, const std::function<int(int)>& rank_at, int lift) {
  const BinaryTree::Node& node = tree.nodes[static_cast<std::size_t>(member)];
  const auto name = [&](int other) { return other < 0 ? -1 : rank_at(other); };
  Lane lane;
  lane.parent = name(node.parent);
  lane.children = {name(node.children[0]), name(node.children[1])};
  lane.depth = node.depth + lift;
  lane.second_child =
      node.parent >= 0 && tree.nodes[static_cast<std::size_t>(node.parent)].children[1] == member;
  return lane;
}

// Lanes of a collective with a root: it stands above both trees, which hold the other ranks.
std::array<Lane, 2> rooted_lanes(const Team& team, int root, Slice data, int chunks, int& height) {
  const int size = team.size();
  const std::array<BinaryTree, 2> trees = double_tree(size - 1);
  const std::array<Shares, 2> halves = halves_in_chunks(data, chunks);
  const auto rank_at = [&](int member) { return team.rank(after_root(member, root, size)); };
  const int member = (team.index - root - 1 + size) % size;  // size - 1: the root itself
  std::array<Lane, 2> lanes;
  for (std::size_t i = 0; i < 2; ++i) {
    if (team.index == root) {
      lanes[i].children[0] = rank_at(trees[i].root);
    } else {
      lanes[i] = lane_of(trees[i], member, rank_at, 1);
      if (member == trees[i].root) lanes[i].parent = team.rank(root);
    }
    lanes[i].chunks = halves[i];
  }
  height = trees[0].height + 1;
  return lanes;
}

}  // namespace

std::array<BinaryTree, 2> double_tree(int size) {
  BinaryTree first;
  first.nodes.resize(static_cast<std::size_t>(size));
  first.root = plant(first, 0, size, -1, 0);
  const auto mirrored = [size](int position) { return size - 1 - position; };
  const auto shifted = [size](int position) { return (position + size - 1) % size; };
  return {first, size % 2 == 0 ? renamed(first, mirrored) : renamed(first, shifted)};
}

void tree_all_reduce(StepBuilder& out, const Team& team, Slice data, int chunks) {
  if (team.size() == 1) return;
  const std::array<BinaryTree, 2> trees = double_tree(team.size());
  const std::array<Shares, 2> halves = halves_in_chunks(data, chunks);
  std::array<Lane, 2> lanes;
  for (std::size_t i = 0; i < 2; ++i) {
    lanes[i] = lane_of(
        trees[i], team.index, [&](int member) { return team.rank(member); }, 0);
    lanes[i].chunks = halves[i];
  }
  const int height = trees[0].height;
  add_rounds(out, lanes, {.up = height, .down = height}, 2 * height + chunks - 1);
}

void tree_broadcast(StepBuilder& out, const Team& team, int root, Slice data, int chunks) {
  if (team.size() == 1) return;
  int height = 0;
  const std::array<Lane, 2> lanes = rooted_lanes(team, root, data, chunks, height);
  add_rounds(out, lanes, {.down = 0}, height + chunks - 1);
}

void tree_reduce(StepBuilder& out, const Team& team, int root, Slice data, int chunks) {
  if (team.size() == 1) return;
  int height = 0;
  const std::array<Lane, 2> lanes = rooted_lanes(team, root, data, chunks, height);
  add_rounds(out, lanes, {.up = height}, height + chunks - 1);
}

}  // namespace tutti::schedule
