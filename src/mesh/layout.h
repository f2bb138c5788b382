// Who holds what: the sizes of the axes and the choices that decide where parameters and state
// live. The section "layout" of RUN/plan.json is this struct.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.h"
#include "core/json.h"
#include "mesh/axis.h"

namespace tutti::mesh {

struct Layout {
  std::map<Axis, int> sizes = {
      {Axis::Dp, 1}, {Axis::Tp, 1}, {Axis::Pp, 1}, {Axis::Cp, 1}, {Axis::Ep, 1}};
  std::vector<Axis> order = {Axis::Pp, Axis::Dp, Axis::Cp,
                             Axis::Tp};  // slowest first; ep lies inside dp x cp
  int zero = 1;                          // 0 | 1 | 2 | 3
  int zero_shard = 0;  // ranks of dp x cp that share out one copy of it all (0: every one); the
                       // groups that they form hold the same
  int micro = 1;       // sequences per rank and micro-batch
  bool share_pages = true;         // from ZeRO 1 on: ranks of a host map one copy of the parameters
  std::string recompute = "none";  // | selective | full: activations made again in backward
  bool sequence = true;            // with tp > 1: rows between split products are dealt out

  [[nodiscard]] int size(Axis axis) const;
  /// Ranks of the job: the product of the axes in `order`.
  [[nodiscard]] int ranks() const;
  /// Ranks that share out one copy of parameters and state; all of dp x cp at ZeRO 0, which shares
  /// out nothing.
  [[nodiscard]] int shards() const;
  /// Ranks that a user means who gives axes and no number: their product (dp at 0 counts once);
  /// `otherwise` where no axis is given.
  [[nodiscard]] int ranks_or(int otherwise) const;
  friend bool operator==(const Layout&, const Layout&) = default;
};

core::Json to_json(const Layout& layout);
/// Throws core::ConfigError naming the key that is missing or wrong.
Layout layout_from_json(const core::Json& json);

/// "dp2 zero1 micro4": for people and for names of folders. Axes of size 1 are left out; one rank
/// is "dp1".
std::string describe(const Layout& layout);

/// Parses one LAYOUT of the command line ("tp=2,dp=2,zero=3,micro=1") over the values of `base`.
/// Axes that are not named are 1, except dp, which is left at 0 = "fill what is left" if not named.
/// Unknown keys and bad values become problems.
Layout parse_layout(std::string_view text, const Layout& base,
                    std::vector<core::Problem>& problems);

/// Fills dp: ranks / product of the other axes. A problem (with the nearest numbers that work) if
/// it does not divide or if a given dp contradicts `ranks`.
Layout fill_dp(Layout layout, int ranks, std::vector<core::Problem>& problems);

}  // namespace tutti::mesh
