// The config: every key exists, is refused with its place and cure, and survives printing.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <set>

#include "config/key.h"
#include "config/parse.h"
#include "config/print.h"
#include "config/toml_text.h"
#include "core/error.h"

namespace tutti::config {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

std::vector<std::string> problems(std::string_view toml, std::vector<std::string> overrides = {}) {
  std::vector<std::string> texts;
  try {
    parse(toml, "t.toml", overrides);
  } catch (const core::ConfigError& error) {
    EXPECT_EQ(error.exit_status(), 2);
    for (const core::Problem& problem : error.problems()) texts.push_back(problem.text);
  }
  return texts;
}

RunConfig with(std::vector<std::string> overrides) { return parse("", "t.toml", overrides); }

TEST(Config, EmptyTextGivesTheDefaults) {
  const RunConfig config = parse("", "t.toml", {});
  EXPECT_EQ(config.batch.micro, 4);
  EXPECT_EQ(config.batch.global, 16);
  EXPECT_EQ(config.optim.lr, 6e-4);
  EXPECT_EQ(config.parallel.dp, 0);
  EXPECT_EQ(config.run.seed, 1u);
  EXPECT_THAT(config.data.train, IsEmpty());
}

// Every key of the interface with a value that is not its default (where another one is built).
constexpr const char* kEverything = R"(
[model]
preset = "gpt2-124m"
kind = "gpt2"
layers = 2
hidden = 64
heads = 8
kv_heads = 8
ffn = 100
vocab = 300
context = 99
tied = false
experts = 8
top_k = 3
expert_ffn = 96
shared_experts = 2
dense_layers = 1
capacity = 1.25
dropout = 0.25
attention_dropout = 0.5
[data]
train = ["a.tokens", "b\\\"c.tokens"]
valid = "v.tokens"
sequence = 31
packing = "none"
epochs = 2
[batch]
micro = 3
global = 24
token_budget = 0
[optim]
kind = "sgd"
lr = 1
min_lr = 1e-7
betas = [0, 0.99]
eps = 1e-6
schedule = "wsd"
warmup_steps = 7
decay_steps = 8
weight_decay = 0.01
clip = 0
[parallel]
dp = 6
tp = 2
pp = 1
cp = 1
ep = 1
zero = 0
zero_shard = 0
share_pages = false
overlap = false
sequence = false
schedule = "1f1b"
chunks = 1
split = "auto"
recompute = "none"
[comm]
timeout_s = 2.5
transport = "auto"
algorithm = "auto"
order = "fast"
wire = "fp32"
allow_staging = false
dry = false
[balance]
queue = 64
speed = "equal"
[run]
steps = 9
seed = 9223372036854775807
dir = "runs/ü \t\u0001"
precision = "fp64"
eval_every = 0
checkpoint_every = 4
keep = 1
threads = 2
bind = "none"
memory_limit = "1.5G"
huge_pages = "auto"
trace = [0, 8]
)";

TEST(Config, ReadsEveryKey) {
  const RunConfig c = parse(kEverything, "t.toml", {});
  EXPECT_EQ(c.model.preset, "gpt2-124m");
  EXPECT_EQ(c.model.layers, 2);
  EXPECT_EQ(c.model.hidden, 64);
  EXPECT_EQ(c.model.heads, 8);
  EXPECT_EQ(c.model.kv_heads, 8);
  EXPECT_EQ(c.model.ffn, 100);
  EXPECT_EQ(c.model.vocab, 300);
  EXPECT_EQ(c.model.context, 99);
  EXPECT_FALSE(c.model.tied);
  EXPECT_EQ(c.model.dropout, 0.25);
  EXPECT_EQ(c.model.attention_dropout, 0.5);
  EXPECT_THAT(c.data.train, ElementsAre("a.tokens", "b\\\"c.tokens"));
  EXPECT_THAT(c.data.weights, IsEmpty());
  EXPECT_EQ(c.data.valid, 0);
  EXPECT_EQ(c.data.valid_file, "v.tokens");
  EXPECT_EQ(c.data.sequence, 31);
  EXPECT_EQ(c.data.epochs, 2);
  EXPECT_EQ(c.batch.micro, 3);
  EXPECT_EQ(c.batch.global, 24);
  EXPECT_EQ(c.optim.kind, "sgd");
  EXPECT_EQ(c.optim.lr, 1);
  EXPECT_EQ(c.optim.min_lr, 1e-7);
  EXPECT_THAT(c.optim.betas, ElementsAre(0.0, 0.99));
  EXPECT_EQ(c.optim.eps, 1e-6);
  EXPECT_EQ(c.optim.schedule, "wsd");
  EXPECT_EQ(c.optim.warmup_steps, 7);
  EXPECT_EQ(c.optim.decay_steps, 8);
  EXPECT_EQ(c.optim.weight_decay, 0.01);
  EXPECT_EQ(c.optim.clip, 0);
  EXPECT_EQ(c.parallel.dp, 6);
  EXPECT_EQ(c.parallel.zero, 0);
  EXPECT_FALSE(c.parallel.share_pages);
  EXPECT_FALSE(c.parallel.overlap);
  EXPECT_FALSE(c.parallel.sequence);
  EXPECT_EQ(c.comm.timeout_s, 2.5);
  EXPECT_EQ(c.run.steps, 9);
  EXPECT_EQ(c.run.seed, 9223372036854775807u);
  EXPECT_EQ(c.run.dir, "runs/\u00fc \t\u0001");
  EXPECT_EQ(c.run.precision, "fp64");
  EXPECT_EQ(c.run.eval_every, 0);
  EXPECT_EQ(c.run.checkpoint_every, 4);
  EXPECT_EQ(c.run.keep, 1);
  EXPECT_EQ(c.run.threads, 2);
  EXPECT_EQ(c.run.bind, "none");
  EXPECT_EQ(c.run.memory_limit, "1.5G");
  EXPECT_THAT(c.run.trace, ElementsAre(0, 8));
}

TEST(Config, TheTableHoldsExactlyTheKeysOfTheTextAbove) {
  std::set<std::string> expected;
  std::string section;
  for (std::string_view rest = kEverything; !rest.empty();) {
    const std::string line(rest.substr(0, rest.find('\n')));
    rest.remove_prefix(line.size() + 1);
    if (line.starts_with("[")) section = line.substr(1, line.size() - 2);
    if (const auto equals = line.find(" ="); equals != std::string::npos) {
      expected.insert(section + "." + line.substr(0, equals));
    }
  }
  std::set<std::string> keys;
  for (const Key& key : all_keys()) {
    EXPECT_TRUE(keys.insert(std::string(key.section) + "." + std::string(key.name)).second);
    EXPECT_FALSE(key.comment.empty()) << key.name;
  }
  EXPECT_EQ(keys, expected);
}

TEST(Config, PrintedTextReadsBackAsTheSameConfig) {
  // Each default and each value of kEverything survives; print() is injective in every key (checked
  // below).
  for (const RunConfig& config : {RunConfig{}, parse(kEverything, "t.toml", {})}) {
    EXPECT_EQ(print(parse(print(config), "p.toml", {})), print(config));
  }
  // ReadsEveryKey's oracle, once more behind print().
  const RunConfig c = parse(print(parse(kEverything, "t.toml", {})), "p.toml", {});
  EXPECT_EQ(c.run.dir, "runs/\u00fc \t\u0001");
  EXPECT_THAT(c.data.train, ElementsAre("a.tokens", "b\\\"c.tokens"));
  EXPECT_EQ(c.run.seed, 9223372036854775807u);
  EXPECT_EQ(c.data.valid_file, "v.tokens");
  EXPECT_EQ(c.parallel.dp, 6);
}

TEST(Config, AnyPrintedConfigReadsBack) {
  EXPECT_TRUE(rc::check("numbers, texts and lists keep their exact value", [] {
    RunConfig c;
    c.optim.lr = *rc::gen::suchThat<double>([](double x) { return x >= 0 && x < 1e30; });
    c.optim.betas = {
        *rc::gen::map(rc::gen::inRange(0, 1 << 20), [](int i) { return i / double(1 << 20); }),
        0.5};
    c.run.seed = *rc::gen::inRange<std::uint64_t>(0, std::uint64_t{1} << 63);
    c.run.dir = *rc::gen::container<std::string>(rc::gen::inRange<char>(1, 127));
    c.model.layers = *rc::gen::inRange(0, 1 << 30);
    c.parallel.dp = *rc::gen::inRange(0, 100);
    c.data.train = *rc::gen::container<std::vector<std::string>>(
        rc::gen::nonEmpty(rc::gen::container<std::string>(rc::gen::inRange<char>(1, 127))));
    if (*rc::gen::arbitrary<bool>()) c.data.weights.assign(c.data.train.size(), 0.1);
    const RunConfig back = parse(print(c), "p.toml", {});
    RC_ASSERT(back.optim.lr == c.optim.lr);
    RC_ASSERT(back.optim.betas == c.optim.betas);
    RC_ASSERT(back.run.seed == c.run.seed);
    RC_ASSERT(back.run.dir == c.run.dir);
    RC_ASSERT(back.model.layers == c.model.layers);
    RC_ASSERT(back.parallel.dp == c.parallel.dp);
    RC_ASSERT(back.data.train == c.data.train);
    RC_ASSERT(back.data.weights == c.data.weights);
    RC_ASSERT(print(back) == print(c));
  }));
}

TEST(Config, ReportsAllProblemsAtOnceWithTheirLines) {
  const auto texts =
      problems("[batch]\nmicro = 0\nglobl = 12\n\n[modle]\nlayers = 2\n[optim]\nkind = \"adam\"\n",
               {"optim.lrr=1", "nonsense"});
  EXPECT_THAT(
      texts,
      ElementsAre(
          AllOf(StartsWith("t.toml:2: [batch] micro = 0 is not a whole number of at least 1"),
                HasSubstr("sequences per rank and micro-batch")),
          StartsWith("t.toml:3: [batch] has no key globl. Did you mean global?"),
          StartsWith("t.toml:5: the config has no section [modle]. Did you mean [model]?"),
          AllOf(StartsWith("t.toml:8: [optim] kind = \"adam\" is none of"),
                HasSubstr("Did you mean \"adamw\"?")),
          StartsWith("override optim.lrr=1: [optim] has no key lrr. Did you mean lr?"),
          StartsWith("override nonsense: an override is section.key=value")));
}

TEST(Config, NamesTheSectionWhereAKeyBelongs) {
  EXPECT_THAT(problems("[run]\nlr = 1\n"),
              ElementsAre("t.toml:2: [run] has no key lr: it belongs to [optim]."));
  EXPECT_THAT(problems("steps = 3\n"),
              ElementsAre(HasSubstr("steps stands outside of every section")));
  EXPECT_THAT(problems("run = 3\n"), ElementsAre(HasSubstr("write [run]")));
}

TEST(Config, RefusesWrongTypes) {
  for (const char* line : {"[batch]\nmicro = \"4\"",
                           "[batch]\nmicro = 4.0",
                           "[optim]\nlr = \"fast\"",
                           "[model]\ntied = 1",
                           "[run]\ndir = 7",
                           "[optim]\nbetas = [0.9]",
                           "[optim]\nbetas = [0.9, 1.0]",
                           "[run]\ntrace = [5, 3]",
                           "[run]\nmemory_limit = \"much\"",
                           "[run]\nmemory_limit = \"0\"",
                           "[data]\ntrain = 3",
                           "[data]\ntrain = \"\"",
                           "[data]\ntrain = [\"a\", {path = \"b\", weight = 1}]",
                           "[data]\ntrain = [{path = \"b\", weight = 0}]",
                           "[data]\nvalid = 1.0",
                           "[data]\nvalid = -0.1",
                           "[data]\nvalid = \"\"",
                           "[optim]\nlr = nan",
                           "[optim]\nlr = inf",
                           "[optim]\nlr = -1e-3",
                           "[optim]\neps = 0",
                           "[comm]\ntimeout_s = 0",
                           "[model]\ndropout = 1.0",
                           "[run]\nsteps = 0",
                           "[run]\nseed = -1",
                           "[parallel]\ndp = 0",
                           "[batch]\nmicro = 99999999999",
                           "[run]\ndir = 2024-01-01"}) {
    EXPECT_THAT(problems(line), ElementsAre(StartsWith("t.toml:2: ["))) << line;
  }
}

TEST(Config, RefusesWhatNeedsAPartThatIsNotBuilt) {
  EXPECT_THAT(problems("[parallel]\npp = 2"),
              ElementsAre(StartsWith(
                  "t.toml:2: [parallel] pp = 2 needs pipeline parallelism, which is not built "
                  "yet: set pp = 1.")));
  for (const char* line :
       {"parallel.pp=2", "parallel.cp=2", "parallel.ep=2", "parallel.schedule=gpipe",
        "parallel.schedule=order.csv", "parallel.chunks=2", "parallel.split=[2, 2]",
        "data.packing=pack", "batch.token_budget=100", "model.kind=llama", "comm.transport=tcp",
        "comm.order=flat", "comm.wire=native", "balance.queue=3", "balance.speed=measured"}) {
    EXPECT_THAT(problems("", {line}), ElementsAre(HasSubstr("not built yet: set "))) << line;
  }
  EXPECT_THAT(problems("", {"parallel.zero=4"}), ElementsAre(HasSubstr("from 0 to 3")));
  EXPECT_THAT(problems("", {"parallel.tp=0"}), ElementsAre(HasSubstr("is not a whole number")));
}

TEST(Config, OverridesReadLikeTheFileAndMayLeaveOutQuotes) {
  const RunConfig c = with({"optim.lr=3e-4", "run.dir=runs/x y", "run.seed=5", "run.seed=6",
                            "optim.betas=[0.8, 0.9]", "data.train=a.tokens", "data.valid=v.tokens",
                            "optim.kind=sgd", "run.memory_limit=2G"});
  EXPECT_EQ(c.optim.lr, 3e-4);
  EXPECT_EQ(c.run.dir, "runs/x y");
  EXPECT_EQ(c.run.seed, 6u);  // the last one wins
  EXPECT_THAT(c.data.train, ElementsAre("a.tokens"));
  EXPECT_EQ(c.data.valid_file, "v.tokens");
  EXPECT_EQ(c.optim.kind, "sgd");
  EXPECT_EQ(with({"run.dir=2024"}).run.dir, "2024");
  EXPECT_EQ(with({"run.dir=\"q\""}).run.dir, "q");
  EXPECT_EQ(with({"data.valid=0.1"}).data.valid, 0.1);
  EXPECT_EQ(with({"data.train=[\"a\", \"b\"]"}).data.train.size(), 2u);
}

TEST(Config, AnOverrideCannotSmuggleInASecondKey) {
  EXPECT_THAT(problems("", {"run.steps=1\nx = 2"}),
              ElementsAre(HasSubstr("no value that TOML knows")));
  EXPECT_THAT(problems("", {"data.valid=1.5"}),
              ElementsAre(HasSubstr("data.valid=1.5: [data] valid = 1.5 is neither")));
  for (const char* bad : {"=1", "run.=1", ".x=1", "steps=3", "run.steps"}) {
    EXPECT_THAT(problems("", {bad}), ElementsAre(HasSubstr("section.key=value"))) << bad;
  }
  EXPECT_THAT(problems("", {"rum.steps=3"}), ElementsAre(HasSubstr("Did you mean [run]?")));
}

TEST(Config, TextThatIsNotTomlIsNamedWithItsLine) {
  EXPECT_THAT(problems("[run]\nsteps = = 3\n"),
              ElementsAre(StartsWith("t.toml:2: this is not TOML: ")));
}

TEST(Statements, AreKeysWithTheirSectionAndWithoutComments) {
  EXPECT_THAT(
      statements("[run]\nsteps = 3         # how many\n# dir =            # where\n\n[batch]\n"
                 "note = \"a # b\"\n"),
      ::testing::ElementsAre("[run] steps = 3", "[run] # dir =", "[batch] note = \"a # b\""));
}

TEST(Statements, OfEqualConfigsAreEqual) {
  const auto of = [](const char* text) { return statements(print(parse(text, "t.toml", {}))); };
  EXPECT_EQ(of(""), of("[optim]\n"));
  EXPECT_EQ(of("").size(), of("[run]\nsteps = 7\n").size());
  EXPECT_NE(of(""), of("[run]\nsteps = 7\n"));
}

TEST(Config, AFileThatIsNotThereIsTheUsersMistake) {
  EXPECT_THROW(load("no/such/file.toml", {}), core::ConfigError);
  EXPECT_THROW(load("/", {}), core::ConfigError);
}

TEST(TomlText, NumbersReadBackExactly) {
  EXPECT_EQ(toml_number(1), "1.0");
  EXPECT_EQ(toml_number(6e-4), "0.0006");
  EXPECT_EQ(toml_number(1e-8), "1e-08");
  EXPECT_EQ(toml_number(0.1 + 0.2), "0.30000000000000004");
}

TEST(Config, APlanMaySayWhatARunDoesNotObeyYet) {
  const char* text =
      "[model]\nkind = \"moe\"\nexperts = 8\n[parallel]\ntp = 2\npp = 4\ncp = 2\nep = 2\nzero = 3\n"
      "chunks = 2\nschedule = \"interleaved\"\nrecompute = \"full\"\n[run]\nprecision = \"bf16\"\n";
  EXPECT_THROW(parse(text, "t.toml", {}), core::ConfigError);
  const RunConfig c = parse(text, "t.toml", {}, For::Planning);
  EXPECT_EQ(c.model.kind, "moe");
  EXPECT_EQ(c.model.experts, 8);
  EXPECT_EQ(c.parallel.tp * c.parallel.pp * c.parallel.cp * c.parallel.ep, 32);
  EXPECT_EQ(c.parallel.zero, 3);
  EXPECT_EQ(c.parallel.schedule, "interleaved");
  EXPECT_EQ(c.run.precision, "bf16");
  EXPECT_THROW(parse("[parallel]\ntp = 0\n", "t.toml", {}, For::Planning), core::ConfigError);
}

}  // namespace
}  // namespace tutti::config
