// What a collective costs: closed forms for the planner, and the counts of a generated schedule
// that they must equal.
#pragma once

#include "schedule/collective.h"

namespace tutti::schedule {

/// Elements are those of the busiest rank; multiply by their size for bytes.
struct CollectiveCost {
  int rounds = 0;    // latencies on the longest path: messages and syncs (collective_run.h)
  double moved = 0;  // elements that a rank sends, or reads from and stores into peers' buffers
  double added = 0;  // additions
};

/// Closed forms; P ranks, n elements, p = largest power of two <= P, k chunks, L ranks in each of G
/// groups; logarithms rounded down. Columns: rounds, moved, added.
///
// clang-format off
///   all-reduce      inline, one-shot  1                 (P-1) n              (P-1) n
///                   direct            2                 2 (P-1)/P n          (P-1)/P n
///                   staged            k + 1             2 (P-1)/P n          (P-1)/P n
///                   ring              2 (P-1)           2 (P-1)/P n          (P-1)/P n
///                   tree              2 log2 P + k - 1  2n (P=2: n, 3: 3n/2) n (P=2: n/2)
///                   halving           2 log2 p          2 (p-1)/p n          (p-1)/p n
///                   doubling          log2 p            n log2 p             n log2 p
///                     both, P > p:    2 more            n more               n more
///                   chain             2 (P-1) + k - 1   2n (P=2: n)          n
///                   hierarchical      2                 2 (L-1)/L n          (L-1)/L n
///                     and what `between` costs with n/L elements and G ranks
///   reduce-scatter  direct            2                 (P-1)/P n            (P-1)/P n
///                   ring, halving     P - 1, log2 P     (P-1)/P n            (P-1)/P n
///                     halving, P > p: 2 more            as the source spells out
///                   hierarchical      2 + G - 1         (L-1)/L n + (G-1)/P n, both
///   all-gather      the same, and nothing added
///   broadcast       direct            2                 n                    0
///                   tree, chain       log2 (P-1) + k, P - 2 + k; n           0
///   reduce          direct            2                 n                    (P-1)/P n
///                   tree, chain       as broadcast, chain 1 more unless the root is the last; n, n
///   scatter         direct, tree      2, log2 P rounded up; n/P, (P-1)/P n   0
///   gather          direct, tree      2, log2 P; n/P, the largest subtree    0
///   all-to-all      direct, ring      2, P - 1          (P-1)/P n            0
// clang-format on
///
/// Syncs of a group of one and a collective of one rank cost nothing.
///
/// Exact where every cut is even and no piece is empty: no `counts`, and P, p, 2k or L G divide n,
/// as the algorithm cuts. Elsewhere shares differ by one element each and moved and added by as
/// many as there are shares. With `counts` the lists are counted. Throws std::invalid_argument as
/// generate() does.
CollectiveCost cost(const CollectiveRequest& request);

/// Counted from the lists. For some hundred ranks.
CollectiveCost count(const CollectiveSchedule& schedule);

}  // namespace tutti::schedule
