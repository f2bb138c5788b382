// Double binary tree (Sanders, Speck, Traeff 2009): each half of the data goes through a tree of
// its own, and a rank that has children in one tree is a leaf of the other, so every rank sends and
// receives all the time. P ranks, n elements.
#pragma once

#include <array>
#include <vector>

#include "schedule/team.h"

namespace tutti::schedule {

/// A binary tree over members 0 ... size - 1 of a team.
struct BinaryTree {
  struct Node {
    int parent = -1;
    std::array<int, 2> children = {-1, -1};
    int depth = 0;  // root: 0
  };
  std::vector<Node> nodes;
  int root = -1;
  int height = 0;  // floor(log2 size), the largest depth
};

/// The two trees: the first has its leaves at the even members; the second is the first one
/// mirrored (even size) or shifted by one (odd size). size >= 1.
std::array<BinaryTree, 2> double_tree(int size);

/// Up both trees, then down. H = floor(log2 P), k = chunks per half: 2H + k - 1 rounds; no rank
/// sends more than 2n. A node adds its first child's sum, then its second child's, to its own
/// value: ((own + first) + second).
void tree_all_reduce(StepBuilder& out, const Team& team, Slice data, int chunks);

/// The root (an index of the team) feeds the trees' roots; the trees hold the other P - 1 ranks. P
/// >= 2. H = floor(log2 (P-1)): H + k rounds; no rank sends more than n.
void tree_broadcast(StepBuilder& out, const Team& team, int root, Slice data, int chunks);

/// The reverse of tree_broadcast, same rounds. The root adds each half's sum to its own value.
void tree_reduce(StepBuilder& out, const Team& team, int root, Slice data, int chunks);

/// Index in the team of member `member` of the trees of tree_broadcast and tree_reduce: all but the
/// root, from the one after it on.
inline int after_root(int member, int root, int size) { return (root + 1 + member) % size; }

}  // namespace tutti::schedule
