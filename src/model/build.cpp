// Stage and initial values from the spec.
#include "model/build.h"

#include "core/hash.h"
#include "core/rng.h"
#include "model/gpt.h"

namespace tutti::model {
namespace {

// Elements `first` and on of the whole parameter.
template <class T>
void fill(std::span<T> out, const spec::Param& param, std::int64_t first, core::PhiloxKey key) {
  using Kind = spec::Init::Kind;
  switch (param.init.kind) {
    case Kind::Zeros:
      std::fill(out.begin(), out.end(), T{0});
      return;
    case Kind::Ones:
      std::fill(out.begin(), out.end(), T{1});
      return;
    case Kind::Normal:
      core::fill_normal(out, static_cast<std::uint64_t>(first), key, core::xxh3(param.name), 0.0F,
                        static_cast<float>(param.init.stddev));
  }
}

}  // namespace

std::vector<std::vector<int>> reads_of_layers(const spec::ModelSpec& spec) {
  std::vector<std::vector<int>> reads(static_cast<std::size_t>(spec.model.layers) + 2);
  for (std::size_t i = 0; i < spec.params.size(); ++i) {
    const spec::Param& param = spec.params[i];
    reads[static_cast<std::size_t>(param.layer) + 1].push_back(static_cast<int>(i));
    if (param.uses > 1) reads.back().push_back(static_cast<int>(i));
  }
  return reads;
}

parallel::Stage build_stage(const spec::ModelSpec& spec, parallel::Replica& replica,
                            const StageOptions& options, core::Trace* trace) {
  const WeightOf weight = [&replica](int param) {
    return parallel::Weight{replica.value(param), param, &replica.weight_grads()};
  };
  const bool again = options.recompute == spec::Recompute::Cheap;
  return parallel::Stage(
      gpt_layers(spec, weight,
                 {.dropout_key = core::philox_key(options.seed, "dropout"),
                  .keep = again ? parallel::Keep::Source : parallel::Keep::Input,
                  .tp = &replica.tensor_parallel()}),
      trace, options.recompute == spec::Recompute::Full,
      [&replica](int layer, parallel::Direction direction) { replica.acquire(layer, direction); });
}

void initialise(const spec::ModelSpec& spec, parallel::Replica& replica, std::uint64_t seed) {
  const core::PhiloxKey key = core::philox_key(seed, "init");
  for (const parallel::ShardView& piece : replica.owned()) {
    const spec::Param& param = spec.params[piece.param];
    AT_DISPATCH_FLOATING_TYPES(piece.value.scalar_type(), "initialise", [&] {
      auto* values = piece.value.data_ptr<scalar_t>();
      for (const mesh::FlatSlice& run : mesh::place_in_whole(param.shape, piece.cut, piece.slice)) {
        fill(std::span(values, static_cast<std::size_t>(run.count)), param, run.first, key);
        values += run.count;
      }
    });
  }
  replica.publish_owned();
}

}  // namespace tutti::model
