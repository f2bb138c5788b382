// ResNet-50 as parameters: He et al., "Deep Residual Learning" (arXiv 1512.03385), with the stride
// in the 3x3 product, as the reference implementations train it.
#pragma once

#include <vector>

#include "spec/graph.h"
#include "spec/param.h"

namespace tutti::spec {

/// One convolution of the network. Spatial sizes are those of its output.
struct Convolution {
  std::string name;  // "layer1.0.conv2"
  int layer = 0;     // bottleneck it belongs to; -1 the stem
  std::int64_t in = 0, out = 0, kernel = 1, size = 1;
};

/// The 53 convolutions in forward order for images of `image` x `image`.
std::vector<Convolution> resnet_convolutions(std::int64_t image);

std::vector<Param> resnet_params(std::int64_t classes);

}  // namespace tutti::spec
