// The table of all keys. A new key is one row here and one member in the options struct of the
// module that obeys it.
#include <fmt/format.h>

#include "config/key.h"

namespace tutti::config {
namespace {

/// Adds rows of one section: keys.add("micro", &BatchOptions::micro, comment, kind-maker, its
/// arguments).
template <class Options>
class Section {
 public:
  Section(std::vector<Key>& keys, std::string_view name, Options RunConfig::*options)
      : keys_(keys), name_(name), options_(options) {}

  template <class T>
  [[nodiscard]] Field<T> at(T Options::*key) const {
    return field(options_, key);
  }

  void add(std::string_view key, Kind kind, std::string comment) const {
    keys_.push_back({name_, key, std::move(comment), std::move(kind)});
  }

 private:
  std::vector<Key>& keys_;
  std::string_view name_;
  Options RunConfig::*options_;
};

void add_model(std::vector<Key>& keys) {
  using O = spec::ModelOptions;
  const Section s(keys, "model", &RunConfig::model);
  s.add("preset", text(s.at(&O::preset)), "sizes by name (gpt2-124m, ...); empty: the keys below");
  s.add("kind",
        choice(s.at(&O::kind), {"gpt2"},
               {{"llama", "the Llama family"},
                {"moe", "mixtures of experts"},
                {"resnet50", "ResNet-50"}}),
        "gpt2 | llama | moe | resnet50");
  s.add("layers", whole(s.at(&O::layers), 0), "blocks");
  s.add("hidden", whole(s.at(&O::hidden), 0), "width of the residual stream");
  s.add("heads", whole(s.at(&O::heads), 0), "attention heads");
  s.add("kv_heads", whole(s.at(&O::kv_heads), 0), "heads of keys and values; 0: heads");
  s.add("ffn", whole(s.at(&O::ffn), 0),
        "width of the feed-forward layer; 0: 4 x hidden (gated: 8/3)");
  s.add("vocab", whole(s.at(&O::vocab), 0), "tokens in the vocabulary; 0: the tokenizer's");
  s.add("context", whole(s.at(&O::context), 0), "tokens that the position embedding covers");
  s.add("tied", flag(s.at(&O::tied)), "gpt2: the head uses the token embedding's weights");
  s.add("experts", whole(s.at(&O::experts), 0), "moe: experts of a layer");
  s.add("top_k", whole(s.at(&O::top_k), 0), "moe: experts per token; 0: 2");
  s.add("expert_ffn", whole(s.at(&O::expert_ffn), 0), "moe: width of one expert; 0: ffn");
  s.add("shared_experts", whole(s.at(&O::shared_experts), 0), "moe: experts of every token");
  s.add("dense_layers", whole(s.at(&O::dense_layers), 0), "moe: first layers without experts");
  s.add("capacity", real(s.at(&O::capacity), {.max = 1e6}),
        "moe: tokens an expert takes, x its even share; 0: all");
  const Reals share = {.max = 1, .below_max = true};
  s.add("dropout", real(s.at(&O::dropout), share), "of embedding and residual");
  s.add("attention_dropout", real(s.at(&O::attention_dropout), share), "of attention weights");
}

void add_data(std::vector<Key>& keys) {
  using O = data::DataOptions;
  const Section s(keys, "data", &RunConfig::data);
  s.add("train", train_files(), "made by `tutti data prepare`; or a list, with or without weights");
  s.add("valid", valid_share(), "share held out at the end of every document, or a file");
  s.add("sequence", whole(s.at(&O::sequence), 1), "tokens of one sequence");
  s.add("packing",
        choice(s.at(&O::packing), {"none"},
               {{"pad", "document packing"},
                {"pack", "document packing"},
                {"balance", "document packing"}}),
        "none (windows across documents) | pad | pack | balance");
  s.add("epochs", whole(s.at(&O::epochs), 0), "0: as many as steps need");
}

void add_batch(std::vector<Key>& keys) {
  using O = train::BatchOptions;
  const Section s(keys, "batch", &RunConfig::batch);
  s.add("micro", whole(s.at(&O::micro), 1), "sequences per rank and micro-batch");
  s.add("global", whole(s.at(&O::global), 1), "sequences per optimizer step, over all ranks");
  s.add("token_budget", whole_only(s.at(&O::token_budget), 0, 0, 1 << 30, "balanced batches"),
        "tokens per micro-batch when packing = \"balance\"; 0: from memory");
}

void add_optim(std::vector<Key>& keys) {
  using O = train::OptimOptions;
  const Section s(keys, "optim", &RunConfig::optim);
  s.add("kind", choice(s.at(&O::kind), {"adamw", "sgd"}), "adamw | sgd");
  s.add("lr", real(s.at(&O::lr), {}), "learning rate after the warm-up");
  s.add("min_lr", real(s.at(&O::min_lr), {}), "learning rate at the end of the schedule");
  s.add("betas", shares(s.at(&O::betas)), "sgd: the first is the momentum");
  s.add("eps", real(s.at(&O::eps), {.above_min = true}), "adamw: added to the root");
  s.add("schedule", choice(s.at(&O::schedule), {"cosine", "wsd", "linear", "constant"}),
        "cosine | wsd | linear | constant");
  s.add("warmup_steps", whole(s.at(&O::warmup_steps), 0), "steps from 0 to lr");
  s.add("decay_steps", whole(s.at(&O::decay_steps), 0),
        "wsd: length of the last phase; 0: a fifth");
  s.add("weight_decay", real(s.at(&O::weight_decay), {}), "on matrices and embeddings");
  s.add("clip", real(s.at(&O::clip), {}), "largest norm of the gradient; 0: never clipped");
}

void add_parallel(std::vector<Key>& keys) {
  using O = parallel::ParallelOptions;
  const Section s(keys, "parallel", &RunConfig::parallel);
  const int many = 1 << 20;
  s.add("dp", data_ranks(), "data-parallel ranks; not given: fills what the other axes leave");
  s.add("tp", whole(s.at(&O::tp), 1, many), "tensor-parallel ranks");
  s.add("pp", whole_only(s.at(&O::pp), 1, 1, many, "pipeline parallelism"), "pipeline stages");
  s.add("cp", whole_only(s.at(&O::cp), 1, 1, many, "context parallelism"),
        "context-parallel ranks");
  s.add("ep", whole_only(s.at(&O::ep), 1, 1, many, "expert parallelism"), "expert-parallel ranks");
  s.add("zero", whole(s.at(&O::zero), 0, 3),
        "0 | 1 | 2 | 3: data-parallel ranks share out nothing | optimizer state | gradients | "
        "parameters");
  s.add("zero_shard", whole(s.at(&O::zero_shard), 0, many), "ranks per shard group; 0: all of dp");
  s.add("share_pages", flag(s.at(&O::share_pages)),
        "ranks of a host map one copy of the parameters where they can");
  s.add("overlap", flag(s.at(&O::overlap)), "false: reduce after backward; the same bits");
  s.add("sequence", flag(s.at(&O::sequence)), "Megatron sequence parallelism where tp > 1");
  s.add("schedule", pipeline_order(),
        "gpipe | 1f1b | interleaved | zb-h1 | zb-h2 | zb-v | zb-auto | a CSV file");
  s.add("chunks", whole_only(s.at(&O::chunks), 1, 1, many, "pipeline parallelism"),
        "virtual stages per rank");
  s.add("split", pipeline_split(), "auto | [layers per stage, ...]");
  s.add("recompute", choice(s.at(&O::recompute), {"none", "selective", "full"}),
        "none | selective | full: activations made again in backward, the same bits");
}

void add_comm(std::vector<Key>& keys) {
  using O = comm::CommOptions;
  const Section s(keys, "comm", &RunConfig::comm);
  s.add("timeout_s", real(s.at(&O::timeout_s), {.max = 1e9, .above_min = true}),
        "of one collective; wire-up has 60");
  const std::string hosts = "communication between hosts";
  s.add("transport", choice(s.at(&O::transport), {"auto"}, {{"rdma", hosts}, {"tcp", hosts}}),
        "auto | rdma | tcp: between hosts; anything but auto never falls back");
  s.add("algorithm",
        choice(s.at(&O::algorithm),
               {"auto", "inline", "one-shot", "direct", "staged", "ring", "tree", "halving",
                "doubling", "chain", "hierarchical"},
               {}),
        "auto | inline | one-shot | direct | staged | ring | tree | halving | doubling | chain | "
        "hierarchical");
  s.add("order", choice(s.at(&O::order), {"fast"}, {{"flat", hosts}}),
        "fast | flat: flat = the bits of plain rank order on any placement");
  s.add("wire", choice(s.at(&O::wire), {"fp32"}, {{"native", hosts}}),
        "fp32 | native: type of partial sums of half types between hosts");
  s.add("allow_staging", flag(s.at(&O::allow_staging)),
        "use unregistered memory when the arena is full (else an error)");
  s.add("dry", flag(s.at(&O::dry)), "benchmarks only: transfers replaced by nothing");
}

void add_balance(std::vector<Key>& keys) {
  using O = data::BalanceOptions;
  const Section s(keys, "balance", &RunConfig::balance);
  const std::string part = "balanced batches";
  s.add("queue", whole_only(s.at(&O::queue), 64, 1, 1 << 30, part),
        "documents that may be delayed to a later step");
  s.add("speed", choice(s.at(&O::speed), {"equal"}, {{"measured", part}}),
        "equal | measured (not bitwise repeatable)");
}

void add_run(std::vector<Key>& keys) {
  using O = train::RunOptions;
  const Section s(keys, "run", &RunConfig::run);
  s.add("steps", whole(s.at(&O::steps), 1), "optimizer steps");
  s.add("seed", seed(s.at(&O::seed)), "of initial weights, data order and dropout");
  s.add("dir", text(s.at(&O::dir)), "the run's folder");
  s.add("precision", choice(s.at(&O::precision), {"fp32", "fp64", "bf16", "auto"}),
        "fp32 | fp64 (the reference of `verify`) | bf16 | auto (measured once)");
  s.add("eval_every", whole(s.at(&O::eval_every), 0), "steps between validations; 0: never");
  s.add("checkpoint_every", whole(s.at(&O::checkpoint_every), 0), "steps; 0: never");
  s.add("keep", whole(s.at(&O::keep), 1), "last checkpoints kept, and the best one");
  s.add("threads", whole(s.at(&O::threads), 0, 4096), "per rank; 0: cores / local ranks");
  s.add("bind", choice(s.at(&O::bind), {"core", "numa", "none"}), "core | numa | none");
  s.add("memory_limit", bytes(s.at(&O::memory_limit)), "per rank, K/M/G; empty: what the host has");
  s.add("huge_pages", choice(s.at(&O::huge_pages), {"auto", "off", "require"}, {}),
        "auto | off | require");
  s.add("trace", steps(s.at(&O::trace)),
        "steps traced, first and last; the last step before a failure always");
}

}  // namespace

std::vector<Key> all_keys() {
  std::vector<Key> keys;
  add_model(keys);
  add_data(keys);
  add_batch(keys);
  add_optim(keys);
  add_parallel(keys);
  add_comm(keys);
  add_balance(keys);
  add_run(keys);
  return keys;
}

}  // namespace tutti::config
