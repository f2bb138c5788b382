// Sums over layers.
#include "spec/graph.h"

namespace tutti::spec {

Weights LayerKind::weights() const {
  Weights sum;
  for (const Operation& operation : operations) {
    sum.split += operation.weights.split;
    sum.whole += operation.weights.whole;
    sum.experts += operation.weights.experts;
  }
  return sum;
}

Count LayerKind::activation_bytes(const ActivationQuestion& question) const {
  if (question.recompute == Recompute::Full) {
    return share(input_per_token * question.tokens * question.compute_bytes,
                 question.sequence_parallel ? question.tp : 1);
  }
  Count sum = 0;
  for (const Operation& operation : operations) {
    sum += spec::activation_bytes(operation, question);
  }
  return sum;
}

Count Graph::layers() const {
  Count sum = 0;
  for (const LayerKind& kind : blocks) sum += kind.count;
  return sum;
}

Count Graph::parameters() const {
  Count sum = embedding.weights().total() + head.weights().total() - tied;
  for (const LayerKind& kind : blocks) sum += kind.count * kind.weights().total();
  return sum;
}

Flops Graph::flops(Count sequence, Attention attention) const {
  Flops sum;
  const auto add = [&](const LayerKind& kind) {
    for (const Operation& operation : kind.operations) {
      const Flops one = spec::flops(operation, sequence, sequence, attention);
      sum.forward += kind.count * one.forward;
      sum.backward += kind.count * one.backward;
    }
  };
  add(embedding);
  for (const LayerKind& kind : blocks) add(kind);
  add(head);
  return sum;
}

Graph graph(const ModelOptions& resolved) {
  if (resolved.kind == "resnet50") return resnet_graph(resolved.vocab, resolved.context);
  return decoder_graph(decoder_sizes(resolved));
}

}  // namespace tutti::spec
