// A hundred steps of a tiny GPT on one rank against what PyTorch's autograd and AdamW made of the
// same start and the same batches. The certificate compares us with ourselves; this does not.
// Shapes: B sequences, T tokens of each, N = B x T, C hidden, V vocabulary.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <map>

#include "core/json.h"
#include "core/safetensors.h"
#include "model/build.h"
#include "model/gpt.h"
#include "train/batches.h"
#include "train/lr.h"
#include "train/step.h"

namespace tutti {
namespace {

// The file is mapped once and lives as long as the tests, so its tensors are views.
at::Tensor reference(const std::string& name) {
  static const core::SafetensorsFile file(PARITY_FOLDER "/gpt_torch.safetensors");
  static const std::map<std::string, at::ScalarType> types = {
      {"F32", at::kFloat}, {"F64", at::kDouble}, {"U8", at::kByte}};
  const core::SafetensorsEntry& entry = file.at(name);
  auto* bytes = const_cast<std::byte*>(entry.bytes.data());  // from_blob takes no const; only read
  return at::from_blob(bytes, entry.shape, types.at(entry.dtype));
}

const core::Json& facts() {
  static const core::Json json = core::Json::parse(std::ifstream(PARITY_FOLDER "/gpt_torch.json"));
  return json;
}

spec::ModelSpec tiny_gpt() {
  const core::Json& model = facts().at("model");
  spec::ModelOptions options;
  options.kind = model.at("kind");
  options.layers = model.at("layers");
  options.hidden = model.at("hidden");
  options.heads = model.at("heads");
  options.vocab = model.at("vocab");
  options.context = model.at("context");
  std::vector<core::Problem> problems;
  return spec::describe(spec::resolve(options, options.vocab, problems));
}

train::OptimOptions adamw() {
  const core::Json& optim = facts().at("optim");
  train::OptimOptions options;
  options.kind = optim.at("kind");
  options.lr = optim.at("lr");
  options.schedule = optim.at("schedule");
  options.warmup_steps = 0;
  options.betas = {optim.at("betas").at(0), optim.at("betas").at(1)};
  options.eps = optim.at("eps");
  options.weight_decay = optim.at("weight_decay");
  options.clip = optim.at("clip");
  return options;
}

int num_steps() { return facts().at("model").at("steps"); }
int num_sequences() { return facts().at("model").at("batch"); }

/// The batch of step 1, 2, ... cut into micro-batches of `micro` sequences.
data::StepBatch batch_of(int step, int micro) {
  const at::Tensor tokens_BT = reference("tokens").select(0, step - 1).to(at::kLong);
  const std::int64_t length = tokens_BT.size(1) - 1;
  data::StepBatch batch;
  batch.first_sample = static_cast<std::uint64_t>(step - 1) * num_sequences();
  for (int first = 0; first < num_sequences(); first += micro) {
    const at::Tensor rows = tokens_BT.narrow(0, first, micro);
    const auto list = [&](std::int64_t begin) {
      const at::Tensor part = rows.narrow(1, begin, length).contiguous();
      return std::vector<std::int64_t>(part.data_ptr<std::int64_t>(),
                                       part.data_ptr<std::int64_t>() + part.numel());
    };
    batch.micro_batches.push_back({.rows = micro,
                                   .sequence = static_cast<int>(length),
                                   .inputs = list(0),
                                   .targets = list(1),
                                   .tokens = micro * length});
  }
  batch.tokens = batch.global_tokens = num_sequences() * length;
  return batch;
}

/// One rank's training, wired as the program wires it, from the reference's start.
class Training {
 public:
  Training(at::ScalarType type, int micro)
      : micro_(micro),
        replica_(spec_, {groups_.dp, groups_.gathers, groups_.tp},
                 {.bucket_bytes = 16 << 10, .type = type}, nullptr),
        stage_(model::build_stage(spec_, replica_, {.seed = 1}, nullptr)),
        optimizer_(spec_, replica_, optim_),
        step_({.spec = spec_,
               .mesh = mesh_,
               .groups = groups_,
               .stage = stage_,
               .replica = replica_,
               .optimizer = optimizer_,
               .shape = {.micro = micro, .dp = 1, .global = num_sequences()},
               .clip = optim_.clip},
              schedule::one_stage(num_sequences() / micro)) {
    const at::NoGradGuard no_grad;
    for (const parallel::ShardView& piece : replica_.owned()) {
      const at::Tensor start = reference("init." + spec_.params[piece.param].name);
      piece.value.copy_(start.flatten().narrow(0, piece.slice.first, piece.slice.count));
    }
    replica_.publish_owned();
  }

  train::StepResult run(int step) {
    data::StepBatch batch = batch_of(step, micro_);
    const double lr = train::lr_at(optim_, num_steps(), step - 1);
    return step_.run(step, batch, lr, /*stop=*/false);
  }

  /// [B, T, V] for a whole batch.
  at::Tensor logits(data::StepBatch batch) {
    const at::NoGradGuard no_grad;
    const model::WeightOf weight = [&](int param) {
      return parallel::Weight{replica_.value(param), param, &replica_.weight_grads()};
    };
    const auto layers = model::gpt_layers(spec_, weight, {});
    const parallel::MicroBatch micro = train::to_micro_batch(batch.micro_batches.front());
    at::Tensor x_NC;
    for (std::size_t i = 0; i + 1 < layers.size(); ++i) x_NC = layers[i]->forward(x_NC, micro);
    return model::gpt_logits(spec_, weight, x_NC)
        .view({batch.micro_batches.front().rows, micro.sequence, spec_.model.vocab});
  }

  /// Gradients of the last step before clipping (the factor is applied in the update), flat, fp64.
  std::map<std::string, at::Tensor> grads() const {
    std::map<std::string, at::Tensor> result;
    for (const parallel::ShardView& piece : replica_.updated()) {
      result[spec_.params[piece.param].name] = piece.grad.to(at::kDouble, false, /*copy=*/true);
    }
    return result;
  }

 private:
  int micro_;
  spec::ModelSpec spec_ = tiny_gpt();
  train::OptimOptions optim_ = adamw();
  mesh::Mesh mesh_{mesh::Layout{}, 0};
  backend::Groups groups_;
  parallel::Replica replica_;
  parallel::Stage stage_;
  train::Optimizer optimizer_;
  train::Step step_;
};

/// err(T) = ||T - T64|| / max(||T64||, 1e-6 rms(all) sqrt(n)) of each gradient of step `step`.
std::map<std::string, double> errors(const std::map<std::string, at::Tensor>& grads, int step) {
  const auto truth = [&](const std::string& name) {
    return reference("grad64.s" + std::to_string(step) + "." + name).flatten();
  };
  double squares = 0;
  std::int64_t elements = 0;
  for (const auto& [name, grad] : grads) {
    squares += truth(name).square().sum().item<double>();
    elements += grad.numel();
  }
  const double rms = std::sqrt(squares / static_cast<double>(elements));
  std::map<std::string, double> result;
  for (const auto& [name, grad] : grads) {
    const double floor = 1e-6 * rms * std::sqrt(static_cast<double>(grad.numel()));
    const double norm = truth(name).norm().item<double>();
    result[name] = (grad - truth(name)).norm().item<double>() / std::max(norm, floor);
  }
  return result;
}

/// Every parameter of the reference has a gradient of ours within four times the error that
/// PyTorch's own fp32 makes.
void expect_in_band(const Training& training, int step) {
  const core::Json& yardstick = facts().at("error32").at("s" + std::to_string(step));
  const std::map<std::string, double> found = errors(training.grads(), step);
  EXPECT_EQ(found.size(), yardstick.size());
  for (const auto& [name, error32] : yardstick.items()) {
    SCOPED_TRACE(testing::Message() << name << " at step " << step);
    ASSERT_TRUE(found.contains(name));
    EXPECT_LE(found.at(name), 4 * error32.get<double>() + 1e-6);
  }
}

double largest_difference(const at::Tensor& a, const at::Tensor& b) {
  return (a.to(at::kDouble) - b.to(at::kDouble)).abs().max().item<double>();
}

TEST(GptAgainstTorch, FirstLogitsAgree) {
  const data::StepBatch batch = batch_of(1, num_sequences());
  Training fp32(at::kFloat, num_sequences());
  EXPECT_LE(largest_difference(fp32.logits(batch), reference("logits")), 1e-5);
  Training fp64(at::kDouble, num_sequences());
  EXPECT_LE(largest_difference(fp64.logits(batch), reference("logits64")), 1e-12);
}

TEST(GptAgainstTorch, AHundredStepsHaveTheSameLossesNormsAndGradients) {
  Training training(at::kFloat, num_sequences());
  for (int step = 1; step <= num_steps(); ++step) {
    SCOPED_TRACE(testing::Message() << "step " << step);
    const train::StepResult result = training.run(step);
    const double loss = facts().at("loss32").at(step - 1);
    const double norm = facts().at("grad_norm32").at(step - 1);
    EXPECT_NEAR(result.loss, loss, step == 1 ? 1e-5 : 1e-3);
    EXPECT_NEAR(result.grad_norm / norm, 1, step == 1 ? 1e-5 : 1e-2);
    if (step == 1 || step == 20) expect_in_band(training, step);
  }
}

// Without the noise of fp32 nothing hides: a wrong epsilon or beta shows in the last digits.
TEST(GptAgainstTorch, InFp64AHundredStepsAgreeToNineDigits) {
  Training training(at::kDouble, num_sequences());
  for (int step = 1; step <= num_steps(); ++step) {
    SCOPED_TRACE(testing::Message() << "step " << step);
    const train::StepResult result = training.run(step);
    EXPECT_NEAR(result.loss, facts().at("loss64").at(step - 1).get<double>(), 1e-9);
    if (step != 1 && step != 20) continue;
    for (const auto& [name, error] : errors(training.grads(), step)) EXPECT_LE(error, 1e-9) << name;
  }
}

TEST(GptAgainstTorch, FourMicroBatchesOfOneGiveTheGradientsOfTheWholeBatch) {
  Training training(at::kFloat, /*micro=*/1);
  for (int step = 1; step <= 20; ++step) {
    const train::StepResult result = training.run(step);
    EXPECT_NEAR(result.loss, facts().at("loss32").at(step - 1).get<double>(), 1e-5) << step;
    if (step == 1 || step == 20) expect_in_band(training, step);
  }
}

}  // namespace
}  // namespace tutti
