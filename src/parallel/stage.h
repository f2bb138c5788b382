// The layers of one pipeline rank and the graph of each: one autograd graph per layer, driven from
// here.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/trace.h"
#include "tensor/torch.h"

namespace tutti::parallel {

/// The sequences of one micro-batch on one rank. N = sequences x sequence, rows of one sequence
/// adjacent.
struct MicroBatch {
  at::Tensor tokens_N;        // long
  at::Tensor targets_N;       // long; -1: not predicted
  std::int64_t sequence = 0;  // tokens per sequence
  std::vector<std::int64_t>
      samples;       // global sample counter of each sequence: the key of its dropout
  double scale = 1;  // of the loss in gradients: 1 / tokens of the whole step, over all ranks
};

/// A piece of the model between two activations x_NC. The last layer of the model gives the loss
/// instead (a scalar sum).
class Layer {
 public:
  virtual ~Layer() = default;
  [[nodiscard]] virtual const std::string& name() const = 0;
  /// `x` is undefined for the first layer of the model, which reads the tokens.
  virtual at::Tensor forward(const at::Tensor& x_NC, const MicroBatch& batch) = 0;
  /// Whether backward may run forward once more instead of keeping what it made: the same bits, and
  /// no gradients made on the way.
  [[nodiscard]] virtual bool repeats() const { return false; }
};

/// Which way the layers are being run: what comes next may be fetched ahead.
enum class Direction { Forward, Backward };

/// Runs layers forward and backward, one graph each, so that what happens between two layers is
/// ordinary code. Used by one thread.
class Stage {
 public:
  /// Called before layer i of the stage runs: its parameters must be there when it returns.
  using BeforeLayer = std::function<void(int layer, Direction)>;

  /// `recompute`: of layers that can be repeated only the input is kept.
  explicit Stage(std::vector<std::unique_ptr<Layer>> layers, core::Trace* trace,
                 bool recompute = false, BeforeLayer before_layer = {})
      : layers_(std::move(layers)),
        trace_(trace),
        recompute_(recompute),
        before_layer_(std::move(before_layer)) {}

  /// Keeps what backward needs under `microbatch` if gradients are enabled. Returns the last
  /// layer's output, detached.
  at::Tensor forward(int microbatch, const MicroBatch& batch, const at::Tensor& input = {});

  /// Releases each layer's activations as it goes. `grad` is undefined where the last layer gives
  /// the loss. Returns the gradient of the stage's input; undefined if it begins with the tokens.
  at::Tensor backward(int microbatch, at::Tensor grad = {});

  /// Micro-batches whose activations are alive.
  [[nodiscard]] int inflight() const { return static_cast<int>(kept_.size()); }

 private:
  struct Activation {
    at::Tensor input, output;  // output: undefined where it is made again
  };
  struct Kept {
    MicroBatch batch;
    std::vector<Activation> activations;  // one per layer
  };
  std::vector<std::unique_ptr<Layer>> layers_;
  core::Trace* trace_;
  bool recompute_;
  BeforeLayer before_layer_;
  std::map<int, Kept> kept_;  // by micro-batch
};

}  // namespace tutti::parallel
