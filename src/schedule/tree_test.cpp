// The shape of the two trees.
#include "schedule/tree.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <numeric>
#include <vector>

namespace tutti::schedule {
namespace {

bool has_children(const BinaryTree& tree, int member) {
  return tree.nodes[static_cast<std::size_t>(member)].children[0] >= 0;
}

// Members below `member`, itself included, found from the root on.
void collect(const BinaryTree& tree, int member, int parent, int depth, std::vector<int>& seen) {
  if (member < 0) return;
  const BinaryTree::Node& node = tree.nodes[static_cast<std::size_t>(member)];
  EXPECT_EQ(node.parent, parent);
  EXPECT_EQ(node.depth, depth);
  seen.push_back(member);
  for (const int child : node.children) collect(tree, child, member, depth + 1, seen);
}

TEST(DoubleTree, EveryMemberHasChildrenInOneTreeAtMost) {
  for (int size = 1; size <= 200; ++size) {
    const auto trees = double_tree(size);
    for (int member = 0; member < size; ++member) {
      EXPECT_FALSE(has_children(trees[0], member) && has_children(trees[1], member))
          << member << " of " << size;
    }
  }
}

TEST(DoubleTree, BothTreesHoldEveryMemberOnceAndAreAsLowAsTheyCanBe) {
  for (int size = 1; size <= 200; ++size) {
    for (const BinaryTree& tree : double_tree(size)) {
      std::vector<int> seen;
      collect(tree, tree.root, -1, 0, seen);
      std::sort(seen.begin(), seen.end());
      std::vector<int> all(static_cast<std::size_t>(size));
      std::iota(all.begin(), all.end(), 0);
      EXPECT_EQ(seen, all);
      EXPECT_EQ(tree.height, std::bit_width(static_cast<unsigned>(size)) - 1) << size;
    }
  }
}

}  // namespace
}  // namespace tutti::schedule
