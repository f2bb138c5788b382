// tutti for programs with a training loop of their own: any torch::nn::Module on many ranks.
//
//   auto world = tutti::init();                        // tutti launch, torchrun, srun or mpirun
//   auto model = std::make_shared<MyModel>();
//   tutti::Replica replica(*model, world.group("dp"));
//   torch::optim::AdamW optimizer(replica.parameters());
//   for each step:
//     for each micro-batch:
//       auto quiet = replica.no_sync(not the last one);
//       loss(model->forward(batch)).backward();
//     replica.wait();                                  // gradients are averaged from here on
//     optimizer.step();
//     replica.publish();                               // with zero >= 1: everyone sees the update
//     optimizer.zero_grad();
//
// Errors are std::runtime_error: value, rule, reason, cure; another rank's failure names the rank.
// Wrong arguments that only a program can make are std::invalid_argument. Nothing waits longer than
// InitOptions::timeout_s; each of the three meetings in init() (store, comparison, connections) at
// most a minute. Everything here is used by one thread per process.
#pragma once

#include <torch/nn/module.h>
#include <torch/nn/modules/container/sequential.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#define TUTTI_API [[gnu::visibility("default")]]

namespace tutti {

struct InitOptions {
  double timeout_s = 600;  // of one operation; then an error says who is missing
  /// Shared memory that is reserved at once on each rank, in bytes; more is taken as it is needed.
  std::size_t arena_bytes = 64 << 20;
};

enum class Op { Sum, Average, Product, Min, Max };

/// Some ranks that communicate. A value; copies mean the same group. Operations are collective:
/// every rank of the group calls them in the same order with the same shapes. Tensors are
/// contiguous, on the CPU, and fp64, fp32, bf16, fp16, an integer type or bool.
class TUTTI_API Group {
 public:
  struct State;
  explicit Group(std::shared_ptr<State> state) : state_(std::move(state)) {}

  [[nodiscard]] int rank() const;  // in this group
  [[nodiscard]] int size() const;
  [[nodiscard]] const std::string& name() const;

  /// In place.
  void all_reduce(const at::Tensor& io, Op op = Op::Sum);
  /// The root's values, everywhere. In place.
  void broadcast(const at::Tensor& io, int root = 0);
  /// Every rank's tensor in rank order, along a new first dim.
  [[nodiscard]] at::Tensor all_gather(const at::Tensor& mine);
  void barrier();

  [[nodiscard]] State& state() const { return *state_; }

 private:
  std::shared_ptr<State> state_;
};

/// All ranks of the job. A value; the last copy that goes, goes after everybody's. Outlives its
/// groups and replicas.
class TUTTI_API World {
 public:
  struct State;
  explicit World(std::shared_ptr<State> state) : state_(std::move(state)) {}

  [[nodiscard]] int rank() const;
  [[nodiscard]] int size() const;
  [[nodiscard]] int local_rank() const;  // among the ranks of this host

  /// All ranks: "dp" for replicas, any other name for a group with a queue of its own. The first
  /// call with a name is collective.
  [[nodiscard]] Group group(const std::string& name) const;
  /// These ranks (ascending, this one among them); collective over them. Refuses a name that means
  /// other ranks already.
  [[nodiscard]] Group group(const std::string& name, const std::vector<int>& ranks) const;

 private:
  std::shared_ptr<State> state_;
};

/// Joins the job that this process was started for: `tutti launch`, torchrun, srun, mpirun and
/// mpiexec are understood; without any of them it is a job of one rank.
TUTTI_API World init(const InitOptions& options = {});

struct ReplicaOptions {
  /// What the ranks share out. 0: nothing, every rank updates everything. 1: the optimizer's state.
  /// 2: gradients too. 3: parameters too; they are one copy in shared pages where the ranks share a
  /// host (then any module does), else gathered block by block, which needs a Sequential.
  int zero = 0;
  /// zero >= 1: so many neighbours of the group share out one copy, and the next ones another; the
  /// copies' gradients are averaged once a step. Divides the group's size. 0: all share out one.
  int zero_shard = 0;
  bool share_pages = true;  // zero >= 1: ranks of a host map one copy of the parameters
  bool overlap = true;      // gradients are reduced while backward goes on; the same bits without
  std::int64_t bucket_bytes = 0;  // of gradients that are reduced together; 0: measured
};

/// A part of the module that this rank updates.
struct Piece {
  std::string name;                 // of the parameter in the module: "0.weight"
  std::vector<std::int64_t> shape;  // of the whole parameter
  std::int64_t first;               // element of the flattened parameter that the piece begins with
  at::Tensor values;                // an element of parameters()
};

/// One copy of a module per rank of a group, trained as one.
///
/// At construction all ranks get rank 0's parameters and buffers, and their memory becomes tutti's:
/// the module's tensors stay the same objects. Parameters that need no gradient are left alone
/// afterwards, and so are buffers. Parameters must be of one type, on the CPU, and outlive the
/// replica with the module. fp32 and fp64 train as they are. In bf16 the module computes in bf16
/// while gradients are added up and averaged in fp32, and the optimizer updates fp32 masters, which
/// publish() rounds.
///
/// A parameter that no loss reaches, on some ranks or on all, has a gradient of zeros.
class TUTTI_API Replica {
 public:
  /// Collective. Refuses (std::runtime_error) modules that differ between ranks, naming the first
  /// parameter that does.
  Replica(torch::nn::Module& module, const Group& group, const ReplicaOptions& options = {});
  /// The same for a module whose children run one after the other: its blocks. With zero = 3 call
  /// forward() of the replica, not of the module.
  Replica(torch::nn::Sequential& blocks, const Group& group, const ReplicaOptions& options = {});
  ~Replica();
  Replica(const Replica&) = delete;
  Replica& operator=(const Replica&) = delete;

  /// What an optimizer is to update on this rank: the module's parameters, or, from zero = 1 on and
  /// in bf16, flat pieces of them (in bf16 of their masters). Then the optimizer must be one that
  /// works element by element (SGD, Adam, AdamW, RMSprop, Adagrad).
  [[nodiscard]] const std::vector<at::Tensor>& parameters() const;

  /// parameters() with what they are of the module, in the same order: for groups of an optimizer's
  /// options, such as no weight decay where shape.size() < 2.
  [[nodiscard]] const std::vector<Piece>& pieces() const;

  /// While the result lives (and `quiet` holds), backward adds to the gradients and communicates
  /// nothing. The last backward of a step runs without.
  class [[nodiscard]] NoSync {
   public:
    explicit NoSync(bool* flag, bool quiet) : flag_(flag), before_(*flag) { *flag = quiet; }
    ~NoSync() { *flag_ = before_; }
    NoSync(const NoSync&) = delete;
    NoSync& operator=(const NoSync&) = delete;

   private:
    bool* flag_;
    bool before_;
  };
  NoSync no_sync(bool quiet = true);

  /// Runs the blocks of a Sequential. Needed with zero = 3, where it is collective if parameters
  /// are not in shared pages: every rank calls it, and its backward, equally often, in validation
  /// too. Elsewhere the same as the module's own.
  [[nodiscard]] at::Tensor forward(at::Tensor input);

  /// Ends a step's backward: gradients of parameters() are averages over the ranks from here on.
  /// Collective.
  void wait();

  /// The 2-norm of all gradients, between wait() and the update, the same on every rank and at
  /// every zero. clip_grad_norm() also scales them where it is above `most`. Collective.
  [[nodiscard]] double grad_norm();
  double clip_grad_norm(double most);

  /// Everyone sees the values that this rank's optimizer has made. Needed where parameters() are
  /// pieces, harmless elsewhere. Collective.
  void publish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tutti
