// Prints what spec counts of a model as JSON, for tests that count the same model in another way.
//   spec_counts SEQUENCE key=value...     keys of [model]; one sequence, forward and backward
#include <fmt/format.h>

#include <cstdlib>
#include <string>

#include "core/json.h"
#include "spec/graph.h"
#include "spec/model_spec.h"

namespace {

using tutti::spec::ModelOptions;

void set(ModelOptions& model, const std::string& key, const std::string& value) {
  if (key == "preset") model.preset = value;
  if (key == "kind") model.kind = value;
  const std::pair<const char*, int ModelOptions::*> sizes[] = {
      {"layers", &ModelOptions::layers},
      {"hidden", &ModelOptions::hidden},
      {"heads", &ModelOptions::heads},
      {"kv_heads", &ModelOptions::kv_heads},
      {"ffn", &ModelOptions::ffn},
      {"vocab", &ModelOptions::vocab},
      {"context", &ModelOptions::context},
      {"experts", &ModelOptions::experts},
      {"top_k", &ModelOptions::top_k},
      {"expert_ffn", &ModelOptions::expert_ffn},
      {"shared_experts", &ModelOptions::shared_experts},
      {"dense_layers", &ModelOptions::dense_layers}};
  for (const auto& [name, size] : sizes) {
    if (key == name) model.*size = std::atoi(value.c_str());
  }
}

tutti::core::Json counts(const tutti::spec::LayerKind& kind, tutti::spec::Count sequence) {
  tutti::core::Json operations = tutti::core::Json::array();
  for (const tutti::spec::Operation& operation : kind.operations) {
    const auto flops =
        tutti::spec::flops(operation, sequence, sequence, tutti::spec::Attention::FullSquare);
    operations.push_back({{"name", operation.name},
                          {"parameters", operation.weights.total().value()},
                          {"forward", flops.forward.value()},
                          {"backward", flops.backward.value()}});
  }
  return {{"name", kind.name}, {"count", kind.count.value()}, {"operations", operations}};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  ModelOptions options;
  for (int i = 2; i < argc; ++i) {
    const std::string word = argv[i];
    const std::size_t equals = word.find('=');
    set(options, word.substr(0, equals), word.substr(equals + 1));
  }
  std::vector<tutti::core::Problem> problems;
  const ModelOptions model = tutti::spec::resolve(options, 0, problems);
  tutti::core::throw_if_any(problems);
  const tutti::spec::Graph graph = tutti::spec::graph(model);
  const tutti::spec::Count sequence = std::atol(argv[1]);
  const auto flops = graph.flops(sequence, tutti::spec::Attention::FullSquare);
  tutti::core::Json layers = tutti::core::Json::array({counts(graph.embedding, sequence)});
  for (const auto& kind : graph.blocks) layers.push_back(counts(kind, sequence));
  layers.push_back(counts(graph.head, sequence));
  const tutti::core::Json json = {{"parameters", graph.parameters().value()},
                                  {"forward", flops.forward.value()},
                                  {"backward", flops.backward.value()},
                                  {"presets", tutti::spec::presets()},
                                  {"model",
                                   {{"kind", model.kind},
                                    {"layers", model.layers},
                                    {"hidden", model.hidden},
                                    {"heads", model.heads},
                                    {"kv_heads", model.kv_heads},
                                    {"ffn", model.ffn},
                                    {"vocab", model.vocab},
                                    {"context", model.context},
                                    {"tied", model.tied},
                                    {"experts", model.experts},
                                    {"top_k", model.top_k},
                                    {"expert_ffn", model.expert_ffn},
                                    {"shared_experts", model.shared_experts},
                                    {"dense_layers", model.dense_layers}}},
                                  {"layers", layers}};
  fmt::print("{}\n", json.dump());
  return 0;
}
