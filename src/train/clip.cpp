// Norm and factor.
#include "train/clip.h"

#include <algorithm>
#include <cmath>

namespace tutti::train {

double grad_norm(std::span<const double> block_squares) {
  double sum = 0;
  for (const double squares : block_squares) sum += squares;
  return std::sqrt(sum);
}

double clip_scale(double norm, double clip) {
  return clip > 0 ? std::min(1.0, clip / (norm + 1e-6)) : 1.0;
}

}  // namespace tutti::train
