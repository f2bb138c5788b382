// The formula at the points that one can count by hand.
#include "spec/volume.h"

#include <gtest/gtest.h>

namespace tutti::spec {
namespace {

ModelOptions model() {
  ModelOptions model;
  model.layers = 12;
  model.hidden = 768;
  return model;
}

TEST(TpVolume, IsFourAllReducesALayerAndOneAtEitherEnd) {
  const double whole = 512.0 * 768 * 4;
  const auto bytes = [&](const TpVolume& volume) { return tp_bytes_per_step(model(), volume); };
  EXPECT_EQ(bytes({.tp = 1, .rows = 512}), 0);
  // Two ranks: an all-reduce sends 2 x 1/2 of the whole.
  EXPECT_EQ(bytes({.tp = 2, .rows = 512}), whole * (4 * 12 + 2));
  EXPECT_EQ(bytes({.tp = 2, .rows = 512, .sequence = false}), whole * (4 * 12 + 2));
  EXPECT_EQ(bytes({.tp = 4, .rows = 512}), 1.5 * whole * (4 * 12 + 2));
  EXPECT_EQ(bytes({.tp = 2, .rows = 512, .microbatches = 3}), 3 * whole * (4 * 12 + 2));
  EXPECT_EQ(bytes({.tp = 2, .rows = 512, .recompute = Recompute::Full}), whole * (6 * 12 + 2));
  EXPECT_EQ(bytes({.tp = 2, .rows = 512, .recompute = Recompute::Cheap}), whole * (5 * 12 + 2));
  EXPECT_EQ(bytes({.tp = 2, .rows = 512, .recompute = Recompute::Cheap, .sequence = false}),
            whole * (4 * 12 + 2));
}

}  // namespace
}  // namespace tutti::spec
