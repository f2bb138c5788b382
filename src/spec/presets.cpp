// The published sizes. Sources: GPT-2: Radford et al. 2019 and the released weights. GPT-3: Brown
// et al. (arXiv 2005.14165) table 2.1. megatron: Narayanan et al. (arXiv 2104.04473) table 1 and
// Korthikanti et al. (arXiv 2205.05198) table 3. Llama 2 (arXiv 2307.09288), Llama 3 (arXiv
// 2407.21783), Mixtral (arXiv 2401.04088): the released configurations. mpt: llm-foundry's
// benchmark sizes. zb: Qi et al. (arXiv 2401.10241) table 3. bloom: BigScience's final shape.
#include "spec/presets.h"

namespace tutti::spec {
namespace {

using Presets = std::vector<std::pair<std::string, ModelOptions>>;

constexpr int kGpt2Vocab = 50257;
constexpr int kMegatronVocab = 51200;  // padded
constexpr int kMptVocab = 50368;       // padded

struct Shape {
  const char* name;
  int layers, hidden, heads, vocab, context;
};

// The source gives no vocabulary for zb; GPT-2's stands in. GPT-3 1.3B has 24 heads of 128 columns
// in its paper, which do not make 2,048; every open reproduction has 16.
constexpr Shape kGptShapes[] = {
    {"gpt2-124m", 12, 768, 12, kGpt2Vocab, 1024},
    {"gpt2-355m", 24, 1024, 16, kGpt2Vocab, 1024},
    {"gpt2-774m", 36, 1280, 20, kGpt2Vocab, 1024},
    {"gpt2-1558m", 48, 1600, 25, kGpt2Vocab, 1024},
    {"gpt3-125m", 12, 768, 12, kGpt2Vocab, 2048},
    {"gpt3-350m", 24, 1024, 16, kGpt2Vocab, 2048},
    {"gpt3-760m", 24, 1536, 16, kGpt2Vocab, 2048},
    {"gpt3-1.3b", 24, 2048, 16, kGpt2Vocab, 2048},
    {"gpt3-2.7b", 32, 2560, 32, kGpt2Vocab, 2048},
    {"gpt3-6.7b", 32, 4096, 32, kGpt2Vocab, 2048},
    {"gpt3-13b", 40, 5120, 40, kGpt2Vocab, 2048},
    {"gpt3-175b", 96, 12288, 96, kGpt2Vocab, 2048},
    {"megatron-1.7b", 24, 2304, 24, kMegatronVocab, 2048},
    {"megatron-3.6b", 30, 3072, 32, kMegatronVocab, 2048},
    {"megatron-7.5b", 36, 4096, 32, kMegatronVocab, 2048},
    {"megatron-18.4b", 40, 6144, 48, kMegatronVocab, 2048},
    {"megatron-22b", 48, 6144, 64, kMegatronVocab, 2048},
    {"megatron-39.1b", 48, 8192, 64, kMegatronVocab, 2048},
    {"megatron-76.1b", 60, 10240, 80, kMegatronVocab, 2048},
    {"megatron-145.6b", 80, 12288, 96, kMegatronVocab, 2048},
    {"megatron-175b", 96, 12288, 96, kMegatronVocab, 2048},
    {"megatron-310.1b", 96, 16384, 128, kMegatronVocab, 2048},
    {"megatron-530b", 105, 20480, 128, kMegatronVocab, 2048},
    {"megatron-1t", 128, 25600, 160, kMegatronVocab, 2048},
    {"mpt-125m", 12, 768, 12, kMptVocab, 2048},
    {"mpt-350m", 24, 1024, 16, kMptVocab, 2048},
    {"mpt-760m", 24, 1536, 12, kMptVocab, 2048},
    {"mpt-1b", 24, 2048, 16, kMptVocab, 2048},
    {"mpt-7b", 32, 4096, 32, kMptVocab, 2048},
    {"mpt-30b", 48, 7168, 56, kMptVocab, 2048},
    {"mpt-70b", 80, 8192, 64, kMptVocab, 2048},
    {"zb-1.5b", 22, 2304, 24, kGpt2Vocab, 1024},
    {"zb-6.2b", 30, 4096, 32, kGpt2Vocab, 1024},
    {"zb-14.6b", 46, 5120, 40, kGpt2Vocab, 1024},
    {"zb-28.3b", 62, 6144, 48, kGpt2Vocab, 1024},
    {"bloom-176b", 70, 14336, 112, 250880, 2048},
};

struct LlamaShape {
  Shape shape;
  int kv_heads, ffn, experts, top_k;
};

constexpr LlamaShape kLlamaShapes[] = {
    {{"llama2-7b", 32, 4096, 32, 32000, 4096}, 32, 11008, 0, 0},
    {{"llama2-13b", 40, 5120, 40, 32000, 4096}, 40, 13824, 0, 0},
    {{"llama2-70b", 80, 8192, 64, 32000, 4096}, 8, 28672, 0, 0},
    {{"llama3-8b", 32, 4096, 32, 128256, 8192}, 8, 14336, 0, 0},
    {{"llama3-70b", 80, 8192, 64, 128256, 8192}, 8, 28672, 0, 0},
    {{"llama3-405b", 126, 16384, 128, 128256, 8192}, 8, 53248, 0, 0},
    {{"mixtral-8x7b", 32, 4096, 32, 32000, 32768}, 8, 14336, 8, 2},
    {{"mixtral-8x22b", 56, 6144, 48, 32768, 65536}, 8, 16384, 8, 2},
};

ModelOptions sized(const Shape& shape) {
  ModelOptions model;
  model.layers = shape.layers;
  model.hidden = shape.hidden;
  model.heads = shape.heads;
  model.vocab = shape.vocab;
  model.context = shape.context;
  return model;
}

Presets make() {
  Presets presets;
  for (const Shape& shape : kGptShapes) presets.emplace_back(shape.name, sized(shape));
  for (const LlamaShape& llama : kLlamaShapes) {
    ModelOptions model = sized(llama.shape);
    model.kind = llama.experts > 0 ? "moe" : "llama";
    model.kv_heads = llama.kv_heads;
    model.ffn = llama.ffn;
    model.experts = llama.experts;
    model.top_k = llama.top_k;
    model.tied = false;
    presets.emplace_back(llama.shape.name, model);
  }
  ModelOptions resnet;
  resnet.kind = "resnet50";
  resnet.vocab = 1000;
  resnet.context = 224;
  presets.emplace_back("resnet50", resnet);
  return presets;
}

}  // namespace

const Presets& all_presets() {
  static const Presets presets = make();
  return presets;
}

}  // namespace tutti::spec
