// Exchanges counted in halves of an all-reduce.
#include "spec/volume.h"

namespace tutti::spec {

double tp_bytes_per_step(const ModelOptions& model, const TpVolume& volume) {
  double halves_per_layer = 8;  // 2 all-reduces forward, 2 backward
  if (volume.recompute == Recompute::Full) halves_per_layer += 4;
  if (volume.recompute == Recompute::Cheap && volume.sequence) halves_per_layer += 2;
  const double halves = halves_per_layer * model.layers + 4;
  const double whole =
      static_cast<double>(volume.rows) * model.hidden * static_cast<double>(volume.element_bytes);
  const auto tp = static_cast<double>(volume.tp);
  return (tp - 1) / tp * whole * halves * static_cast<double>(volume.microbatches);
}

}  // namespace tutti::spec
