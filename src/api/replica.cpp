// Any module over parallel::Replica: autograd's own accumulators bring the gradients, hooks on them
// say when one is there. `.grad` of a parameter is its place in a bucket, so that what autograd
// adds in a later micro-batch lands where it is reduced.
#include "parallel/replica.h"

#include <fmt/format.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <utility>

#include "api/handles.h"
#include "api/module_params.h"
#include "api/replica_groups.h"
#include "core/error.h"
#include "tensor/products.h"
#include "tensor/torch.h"
#include "train/clip.h"

namespace tutti {
namespace {

using parallel::Direction;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

parallel::ReplicaOptions native(const ReplicaOptions& options, const ModuleParams& module,
                                const backend::Group& shards) {
  const backend::Cost cost = shards.cost(backend::Collective::ReduceScatter);
  return {.zero = options.zero,
          .share_pages = options.share_pages,
          .overlap = options.overlap,
          .bucket_bytes = options.bucket_bytes > 0
                              ? options.bucket_bytes
                              : parallel::choose_bucket_bytes(cost.latency_s, cost.bytes_per_s),
          .type = module.type,
          .reduce = backend::ReduceOp::Avg,
          .reads = module.reads};
}

}  // namespace

struct [[gnu::visibility("hidden")]] Replica::State {
  State(torch::nn::Module & module, bool in_blocks, const Group& group,
        const ReplicaOptions& options);
  ~State();
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  void broadcast_values();
  void adopt();
  void contribution(std::size_t param);
  void begin_reducing();
  void bring(std::size_t param, bool synced);
  void move_in(std::size_t param, at::Tensor & slot);
  /// Whether an optimizer updates pieces of the module's parameters, not the parameters themselves.
  [[nodiscard]] bool in_pieces() const { return options.zero > 0 || has_masters(); }
  [[nodiscard]] bool has_masters() const { return tensor::wide_type(module.type) != module.type; }
  void wait();
  std::vector<double> squares();

  backend::Group group;
  ReplicaOptions options;
  ModuleParams module;
  parallel::ReplicaGroups groups;
  parallel::Replica replica;
  torch::nn::SequentialImpl* blocks = nullptr;
  std::vector<at::Tensor> updated;  // leaves for the optimizer
  std::vector<Piece> pieces;        // what they are of the module
  std::vector<bool> arrived;
  std::vector<bool> begun;  // slots that hold something of this step
  bool quiet = false;
  bool reducing = false;  // a backward of this step has communicated
  bool published = true;  // since the last wait()
};

namespace {

struct Arrival final : torch::autograd::PostAccumulateGradHook {
  Arrival(std::function<void()> arrived) : arrived_(std::move(arrived)) {}
  void operator()(const at::Tensor&) override { arrived_(); }

 private:
  std::function<void()> arrived_;
};

}  // namespace

Replica::State::State(torch::nn::Module& of, bool in_blocks, const Group& of_group,
                      const ReplicaOptions& wish)
    : group(of_group.state().group),
      options(wish),
      module(params_of(of, in_blocks)),
      groups(replica_groups(of_group.state(), module, in_blocks, wish)),
      replica({.params = module.params}, groups, native(wish, module, groups.shards), nullptr),
      arrived(module.params.size()),
      begun(module.params.size()) {
  const at::NoGradGuard no_grad;
  broadcast_values();
  adopt();
}

// Rank 0's values reach the owners of each piece, and from there everybody.
void Replica::State::broadcast_values() {
  for (const at::Tensor& other : module.others) {
    const at::Tensor values = other.detach().contiguous();
    group.broadcast(values, 0, "a buffer").wait();
    other.detach().copy_(values);
  }
  std::vector<std::vector<const parallel::ShardView*>> owned(module.params.size());
  for (const parallel::ShardView& each : replica.owned()) {
    owned[static_cast<std::size_t>(each.param)].push_back(&each);
  }
  for (std::size_t i = 0; i < module.params.size(); ++i) {
    const at::Tensor values = module.tensors[i].detach().contiguous().view({-1});
    group.broadcast(values, 0, module.params[i].name).wait();
    for (const parallel::ShardView* each : owned[i]) {
      each->value.copy_(values.narrow(0, each->slice.first, each->slice.count));
    }
  }
  group.barrier("initial parameters").wait();
  replica.publish_owned();
}

// The module's tensors become views of the replica's memory, and tell when they have a gradient.
void Replica::State::adopt() {
  for (std::size_t i = 0; i < module.tensors.size(); ++i) {
    at::Tensor& tensor = module.tensors[i];
    tensor.set_data(replica.value(static_cast<int>(i)).detach());
    tensor.mutable_grad().reset();
    torch::autograd::impl::set_post_acc_grad_hooks(
        tensor, std::make_unique<Arrival>([this, i] { contribution(i); }));
  }
  const auto update = [this](int param, std::int64_t first, const at::Tensor& values) {
    const spec::Param& whole = module.params[static_cast<std::size_t>(param)];
    updated.push_back(values);
    pieces.push_back({whole.name, whole.shape, first, values});
  };
  if (!in_pieces()) {
    for (std::size_t i = 0; i < module.tensors.size(); ++i)
      update(static_cast<int>(i), 0, module.tensors[i]);
    return;
  }
  for (const parallel::ShardView& each : replica.updated()) {
    update(each.param, each.slice.first, each.value.detach().requires_grad_());
  }
}

Replica::State::~State() {
  for (at::Tensor& tensor : module.tensors) {
    tensor.mutable_grad().reset();
    torch::autograd::impl::set_post_acc_grad_hooks(tensor, nullptr);
  }
}

void Replica::State::begin_reducing() {
  if (reducing) return;
  if (!published) {
    throw core::RunError(fmt::format(
        "a step ends, but the update before it was not published: with zero = {} in {} every rank "
        "updates its own pieces. Give replica.parameters() to the optimizer and call "
        "replica.publish() after its step().",
        options.zero, c10::toString(module.type)));
  }
  reducing = true;
  arrived.assign(arrived.size(), false);
  replica.begin_step(1);
}

// Called by autograd, once per parameter and backward.
void Replica::State::contribution(std::size_t i) {
  if (reducing && (quiet || arrived[i])) {
    throw core::RunError(fmt::format(
        "backward reached {} a second time after gradients were sent: all backwards of a step but "
        "the last need no_sync(), and wait() ends the step.",
        module.params[i].name));
  }
  if (!quiet) begin_reducing();
  bring(i, !quiet);
}

// Puts a gradient into its place in the bucket, and sends it if that was the last of this step.
void Replica::State::bring(std::size_t i, bool synced) {
  const at::NoGradGuard no_grad;
  if (synced) arrived[i] = true;
  const auto into_slot = [&](at::Tensor& slot, bool) { move_in(i, slot); };
  replica.weight_grads().write_now(static_cast<int>(i), into_slot, synced);
}

void Replica::State::move_in(std::size_t i, at::Tensor& slot) {
  at::Tensor& grad = module.tensors[i].mutable_grad();
  if (has_masters()) {  // each micro-batch's is added up in fp32
    if (!begun[i]) slot.zero_();
    begun[i] = true;
    if (grad.defined()) slot.add_(grad);
    grad.reset();
    return;
  }
  if (grad.defined() && grad.data_ptr() == slot.data_ptr()) return;
  if (grad.defined()) {
    slot.copy_(grad);
  } else {
    slot.zero_();
  }
  grad = slot;
}

void Replica::State::wait() {
  begin_reducing();
  for (std::size_t i = 0; i < arrived.size(); ++i) {
    if (!arrived[i]) bring(i, true);
  }
  replica.weight_grads().microbatch_done();
  replica.wait_grads();
  reducing = false;
  begun.assign(begun.size(), false);
  if (!in_pieces()) return;
  published = group.size() == 1 && !has_masters();
  // The slots are the bucket's again; a rank may still read pages that an update would write.
  for (at::Tensor& tensor : module.tensors) tensor.mutable_grad().reset();
  for (std::size_t i = 0; i < updated.size(); ++i) {
    updated[i].mutable_grad() = replica.updated()[i].grad.detach();  // zero_grad() takes no views
  }
  if (replica.memory() == parallel::ParamMemory::Shared)
    group.barrier("last read of parameters").wait();
}

std::vector<double> Replica::State::squares() {
  std::vector<double> sums = replica.block_squares();
  if (group.size() == 1) return sums;
  const at::Tensor io =
      at::from_blob(sums.data(), {static_cast<std::int64_t>(sums.size())},
                    at::kDouble);  // a block is counted by the rank that reduced it
  group.all_reduce(io, backend::ReduceOp::Sum, "sums of squares").wait();
  return sums;
}

Replica::Replica(torch::nn::Module& module, const Group& group, const ReplicaOptions& options)
    : state_(std::make_unique<State>(module, false, group, options)) {}

Replica::Replica(torch::nn::Sequential& blocks, const Group& group, const ReplicaOptions& options)
    : state_(std::make_unique<State>(*blocks, true, group, options)) {
  state_->blocks = blocks.get();
}

Replica::~Replica() = default;

const std::vector<at::Tensor>& Replica::parameters() const { return state_->updated; }

const std::vector<Piece>& Replica::pieces() const { return state_->pieces; }

Replica::NoSync Replica::no_sync(bool quiet) { return NoSync(&state_->quiet, quiet); }

namespace {

// Stands behind a block: when its backward is about to begin, the block's parameters must be there.
struct BlockEnd : torch::autograd::Function<BlockEnd> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& y, std::int64_t layer,
                            std::int64_t replica) {
    ctx->saved_data["layer"] = layer;
    ctx->saved_data["replica"] = replica;
    return y;
  }
  static variable_list backward(AutogradContext* ctx, variable_list gy) {
    auto* replica = reinterpret_cast<parallel::Replica*>(ctx->saved_data["replica"].toInt());
    replica->acquire(static_cast<int>(ctx->saved_data["layer"].toInt()), Direction::Backward);
    return {gy[0], {}, {}};
  }
};

}  // namespace

at::Tensor Replica::forward(at::Tensor x) {
  if (state_->blocks == nullptr) {
    throw std::invalid_argument(
        "Replica::forward() runs the blocks of a torch::nn::Sequential; this replica is of another "
        "module. Call the module's own forward().");
  }
  int layer = 0;
  for (torch::nn::AnyModule& block : *state_->blocks) {
    state_->replica.acquire(layer, Direction::Forward);
    x = block.forward(x);
    if (at::GradMode::is_enabled() && x.requires_grad()) {
      x = BlockEnd::apply(x, static_cast<std::int64_t>(layer),
                          reinterpret_cast<std::int64_t>(&state_->replica));
    }
    ++layer;
  }
  return x;
}

void Replica::wait() { state_->wait(); }

double Replica::grad_norm() { return train::grad_norm(state_->squares()); }

double Replica::clip_grad_norm(double most) {
  const double norm = grad_norm();
  const double scale = train::clip_scale(norm, most);
  if (scale == 1) return norm;
  const at::NoGradGuard no_grad;
  for (const at::Tensor& each : state_->updated) each.grad().mul_(scale);
  return norm;
}

void Replica::publish() {
  state_->replica.publish_params();
  state_->published = true;
}

}  // namespace tutti
