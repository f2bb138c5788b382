// A greedy walk over the kinds of changes, then everything superfluous is taken back.
#include "spec/cures.h"

#include <algorithm>

#include "core/error.h"

namespace tutti::spec {
namespace {

// A change of one setting; `apply` works on any layout, so that steps can be left out afterwards.
struct Step {
  std::string change;
  std::string override;
  std::function<void(MemoryLayout&)> apply;
};

using Steps = std::vector<Step>;

Step step(const std::string& section, const std::string& key, const std::string& value,
          std::function<void(MemoryLayout&)> apply) {
  return {fmt::format("[{}] {} = {}", section, key, value),
          fmt::format("{}.{}={}", section, key, value), std::move(apply)};
}

Steps smaller_micro(const FitQuestion& question) {
  Steps steps;
  const std::int64_t micro = question.layout.micro;
  for (std::int64_t smaller = micro - 1; smaller >= 1; --smaller) {
    if (micro % smaller != 0) continue;
    steps.push_back(step("batch", "micro", std::to_string(smaller), [smaller](MemoryLayout& l) {
      l.microbatches = l.microbatches * l.micro / smaller;
      l.micro = smaller;
    }));
  }
  return steps;
}

Steps more_recompute(const FitQuestion& question) {
  Steps steps;
  if (!question.recompute || question.layout.recompute == Recompute::Full) return steps;
  if (question.layout.recompute == Recompute::None) {
    steps.push_back(step("parallel", "recompute", "\"selective\"",
                         [](MemoryLayout& l) { l.recompute = Recompute::Cheap; }));
  }
  steps.push_back(step("parallel", "recompute", "\"full\"",
                       [](MemoryLayout& l) { l.recompute = Recompute::Full; }));
  return steps;
}

Steps more_zero(const FitQuestion& question) {
  Steps steps;
  if (question.layout.dp * question.layout.cp == 1) return steps;
  if (question.layout.zero > 0 && question.layout.zero_shard > 0) {
    steps.push_back(step("parallel", "zero_shard", "0", [](MemoryLayout& l) { l.zero_shard = 0; }));
  }
  for (int zero = question.layout.zero + 1; zero <= question.zero; ++zero) {
    steps.push_back(
        step("parallel", "zero", std::to_string(zero), [zero](MemoryLayout& l) { l.zero = zero; }));
  }
  return steps;
}

// The ranks come from dp where it can be halved; else there are more of them.
void take_from_dp(MemoryLayout& layout, std::int64_t factor) {
  if (layout.dp % factor != 0) return;
  layout.dp /= factor;
  layout.microbatches *= factor;
}

Steps more_tp(const FitQuestion& question) {
  Steps steps;
  if (!question.tp) return steps;
  const std::int64_t tp = question.layout.tp;
  for (std::int64_t factor = 2; factor <= 64; factor *= 2) {
    MemoryLayout tried = question.layout;
    tried.tp = tp * factor;
    take_from_dp(tried, factor);
    if (!check_layout(question.sizes, tried).empty()) break;
    steps.push_back(step("parallel", "tp", std::to_string(tp * factor), [=](MemoryLayout& l) {
      l.tp = tp * factor;
      take_from_dp(l, factor);
    }));
  }
  return steps;
}

Steps more_pp(const FitQuestion& question) {
  Steps steps;
  if (!question.pp) return steps;
  const std::int64_t pp = question.layout.pp;
  for (std::int64_t factor = 2; pp * factor <= question.sizes.layers.value(); factor *= 2) {
    MemoryLayout tried = question.layout;
    tried.pp = pp * factor;
    take_from_dp(tried, factor);
    if (!check_layout(question.sizes, tried).empty()) break;
    steps.push_back(step("parallel", "pp", std::to_string(pp * factor), [=](MemoryLayout& l) {
      l.pp = pp * factor;
      take_from_dp(l, factor);
    }));
    if (factor == 1024) break;
  }
  return steps;
}

MemoryTerms terms_of(const FitQuestion& question, const MemoryLayout& layout) {
  return peak_memory(question.graph, layout, question.runtime(layout));
}

MemoryLayout with(const FitQuestion& question, const Steps& steps) {
  MemoryLayout layout = question.layout;
  for (const Step& one : steps) one.apply(layout);
  return layout;
}

// The first of `options` after which everything fits, else the one that needs least, if it helps.
const Step* choose(const FitQuestion& question, const Steps& so_far, const Steps& options) {
  const Step* best = nullptr;
  MemoryLayout layout = with(question, so_far);
  Count least = terms_of(question, layout).total();
  for (const Step& option : options) {
    layout = with(question, so_far);
    option.apply(layout);
    if (fits(question, layout)) return &option;
    const Count total = terms_of(question, layout).total();
    if (total >= least) continue;
    least = total;
    best = &option;
  }
  return best;
}

}  // namespace

bool fits(const FitQuestion& question, const MemoryLayout& layout) {
  return terms_of(question, layout).total() <= question.limit(layout);
}

std::vector<Cure> cures(const FitQuestion& question) {
  if (fits(question, question.layout)) return {};
  Steps steps;
  for (const auto& kind : {smaller_micro, more_recompute, more_zero, more_tp, more_pp}) {
    const Steps options = kind(question);
    const Step* chosen = choose(question, steps, options);
    if (chosen == nullptr) continue;
    steps.push_back(*chosen);
    if (fits(question, with(question, steps))) break;
  }
  if (!fits(question, with(question, steps))) return {};
  for (std::size_t i = steps.size(); i-- > 0;) {  // the dearest first
    Steps fewer = steps;
    fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(i));
    if (fits(question, with(question, fewer))) steps = std::move(fewer);
  }
  std::vector<Cure> result;
  Steps so_far;
  for (const Step& one : steps) {
    so_far.push_back(one);
    const MemoryLayout layout = with(question, so_far);
    result.push_back({one.change, one.override, layout, terms_of(question, layout)});
  }
  return result;
}

std::optional<Cure> sharing_replicas(const FitQuestion& question) {
  if (question.layout.dp * question.layout.cp != 1 || question.zero < 3) return std::nullopt;
  for (std::int64_t dp = 2; dp <= 64; dp *= 2) {
    if (question.layout.microbatches % dp != 0) break;
    MemoryLayout layout = question.layout;
    layout.dp = dp;
    layout.zero = 3;
    layout.microbatches /= dp;
    if (!fits(question, layout)) continue;
    return Cure{fmt::format("[parallel] dp = {} with zero = 3", dp),
                fmt::format("parallel.dp={} parallel.zero=3", dp), layout,
                terms_of(question, layout)};
  }
  return std::nullopt;
}

}  // namespace tutti::spec
