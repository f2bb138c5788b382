// Keys of which a plan may say more than a run can do yet: `tutti memory` counts every value of
// them.
#include "config/key.h"

namespace tutti::config {
namespace {

constexpr int kMany = 1 << 20;

template <class Options, class T>
Field<T> at(Options RunConfig::*section, T Options::*key) {
  return field(section, key);
}

std::vector<std::pair<std::string_view, Kind>> model_kinds() {
  using O = spec::ModelOptions;
  return {{"kind", choice(at(&RunConfig::model, &O::kind), {"gpt2", "llama", "moe", "resnet50"})}};
}

std::vector<std::pair<std::string_view, Kind>> parallel_kinds() {
  using O = parallel::ParallelOptions;
  const auto p = [](auto key) { return at(&RunConfig::parallel, key); };
  return {{"tp", whole(p(&O::tp), 1, kMany)},
          {"pp", whole(p(&O::pp), 1, kMany)},
          {"cp", whole(p(&O::cp), 1, kMany)},
          {"ep", whole(p(&O::ep), 1, kMany)},
          {"zero", whole(p(&O::zero), 0, 3)},
          {"zero_shard", whole(p(&O::zero_shard), 0, kMany)},
          {"chunks", whole(p(&O::chunks), 1, kMany)},
          {"schedule", choice(p(&O::schedule), {"gpipe", "1f1b", "interleaved", "zb-h1", "zb-h2",
                                                "zb-v", "zb-auto"})},
          {"recompute", choice(p(&O::recompute), {"none", "selective", "full"})}};
}

}  // namespace

std::vector<Key> planning_keys() {
  std::vector<Key> keys = all_keys();
  const std::pair<std::string_view, std::vector<std::pair<std::string_view, Kind>>> sections[] = {
      {"model", model_kinds()}, {"parallel", parallel_kinds()}};
  for (Key& key : keys) {
    for (const auto& [section, kinds] : sections) {
      if (key.section != section) continue;
      for (const auto& [name, kind] : kinds) {
        if (key.name == name) key.kind = kind;
      }
    }
  }
  return keys;
}

}  // namespace tutti::config
