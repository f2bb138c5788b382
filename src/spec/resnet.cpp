// ResNet-50: 16 bottlenecks of three convolutions in four stages. Batch norms keep their input,
// ReLUs their output (the next convolution's input): what a convolution needs and no more.
#include "spec/resnet.h"

#include <cmath>
#include <string>

namespace tutti::spec {
namespace {

constexpr int kBlocks[] = {3, 4, 6, 3};
constexpr std::int64_t kExpansion = 4;
constexpr mesh::AxisSet kReplicas = {mesh::Axis::Dp, mesh::Axis::Cp};

std::int64_t halved(std::int64_t size) { return (size + 1) / 2; }

Operation convolution(const Convolution& c, bool first) {
  const Count pixels = c.size * c.size;
  const Count weights = Count(c.in) * c.out * c.kernel * c.kernel;
  // Every convolution is followed by a batch norm, whose input is this output; a ReLU's output is
  // the next convolution's input.
  return {.name = first ? "stem" : "conv",
          .weights = {.whole = weights + 2 * c.out},
          .flops_per_token = 2 * weights * pixels,
          .backward = first ? 1 : 2,
          .saved = {{.name = "norm input", .per_token = pixels * c.out},
                    {.name = "norm output", .per_token = pixels * c.out, .cheap = true}}};
}

}  // namespace

std::vector<Convolution> resnet_convolutions(std::int64_t image) {
  std::int64_t size = halved(image);
  std::vector<Convolution> all = {{"conv1", -1, 3, 64, 7, size}};
  size = halved(size);  // the pooling behind the stem
  std::int64_t in = 64;
  int layer = 0;
  for (int stage = 0; stage < 4; ++stage) {
    const std::int64_t width = std::int64_t{64} << stage;
    for (int block = 0; block < kBlocks[stage]; ++block, ++layer) {
      const std::string name =
          "layer" + std::to_string(stage + 1) + "." + std::to_string(block) + ".";
      const bool strides = stage > 0 && block == 0;
      const std::int64_t inside = strides ? halved(size) : size;
      all.push_back({name + "conv1", layer, in, width, 1, size});
      all.push_back({name + "conv2", layer, width, width, 3, inside});
      all.push_back({name + "conv3", layer, width, width * kExpansion, 1, inside});
      if (block == 0) {
        all.push_back({name + "downsample", layer, in, width * kExpansion, 1, inside});
      }
      in = width * kExpansion;
      size = inside;
    }
  }
  return all;
}

std::vector<Param> resnet_params(std::int64_t classes) {
  std::vector<Param> params;
  const auto add = [&](std::string name, std::vector<std::int64_t> shape, int layer, Init init) {
    const bool matrix = shape.size() > 1;
    params.push_back({.name = std::move(name),
                      .shape = std::move(shape),
                      .layer = layer,
                      .grad_sum = kReplicas,
                      .in_products = matrix,
                      .decay = matrix,
                      .init = init});
  };
  const auto normal = [](std::int64_t fan) {  // He et al. (arXiv 1502.01852), fan out
    return Init{Init::Kind::Normal, std::sqrt(2.0 / static_cast<double>(fan))};
  };
  constexpr std::int64_t kSmallest = 32;  // any image gives the same parameters
  for (const Convolution& c : resnet_convolutions(kSmallest)) {
    add(c.name + ".weight", {c.out, c.in, c.kernel, c.kernel}, c.layer,
        normal(c.out * c.kernel * c.kernel));
    add(c.name + ".norm.weight", {c.out}, c.layer, {Init::Kind::Ones});
    add(c.name + ".norm.bias", {c.out}, c.layer, {Init::Kind::Zeros});
  }
  constexpr int kHead = 16;
  const std::int64_t features = 512 * kExpansion;
  add("fc.weight", {classes, features}, kHead, normal(classes));
  add("fc.bias", {classes}, kHead, {Init::Kind::Zeros});
  return params;
}

Graph resnet_graph(std::int64_t classes, std::int64_t image) {
  Graph graph{.vocab = classes, .tokens_per_image = 1};
  graph.embedding = {.name = "stem"};
  for (const Convolution& c : resnet_convolutions(image)) {
    const Count pixels = Count(c.size) * c.size;
    if (c.layer < 0) {
      graph.embedding.operations.push_back(convolution(c, true));
      continue;
    }
    if (c.layer == static_cast<int>(graph.blocks.size())) {
      graph.blocks.push_back({.name = "bottleneck", .input_per_token = pixels * c.in});
    }
    graph.blocks.back().operations.push_back(convolution(c, false));
  }
  const Count features = 512 * kExpansion;
  graph.head = {.name = "head", .input_per_token = features};
  graph.head.operations = {{.name = "fc",
                            .role = Role::Loss,
                            .weights = {.whole = features * classes + classes},
                            .flops_per_token = 2 * features * classes,
                            .saved = {{.name = "pooled", .per_token = features}}}};
  return graph;
}

}  // namespace tutti::spec
