// One logical parameter of the whole model. No module asks what a parameter is called; it reads
// this.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "mesh/axis.h"
#include "mesh/cut.h"

namespace tutti::spec {

/// How tensor parallelism cuts a parameter: along `dim`, each of its equal `bands` by itself (a
/// fused QKV is three matrices, not one), as mesh::Cut.
struct Split {
  int dim = 0;
  int bands = 1;
  friend bool operator==(const Split&, const Split&) = default;
};

/// Initial values: constant, or normal(0, stddev) from the counter-based stream of the parameter's
/// name.
struct Init {
  enum class Kind { Zeros, Ones, Normal } kind = Kind::Zeros;
  double stddev = 0.0;
  friend bool operator==(const Init&, const Init&) = default;
};

struct Param {
  std::string name;                 // layout-free: "blocks.7.attn.qkv.weight"
  std::vector<std::int64_t> shape;  // global, unpadded
  int layer = 0;                    // -1 embedding, 0 .. L-1 blocks, L final norm and head
  std::optional<Split> tp;          // empty: replicated over tp
  mesh::AxisSet grad_sum;           // axes over which its gradient is partial
  std::string tied_to;              // empty: not tied
  bool expert = false;              // first dim counts experts: they are dealt out over ep
  bool in_products =
      false;           // multiplied with activations (an embedding that is only looked up is not)
  int uses = 1;        // gradient contributions per micro-batch (a tied embedding: 2)
  bool decay = false;  // weight decay (matrices and embeddings)
  Init init;

  [[nodiscard]] std::int64_t elements() const;
};

/// The part of `param` that tensor-parallel rank `rank` of `ranks` holds; the whole where it is
/// replicated.
mesh::Cut cut_of(const Param& param, int rank, int ranks);

/// The same parameters in the shapes that rank `rank` of `ranks` holds. Throws
/// std::invalid_argument where a part would be empty.
std::vector<Param> local_params(const std::vector<Param>& params, int rank, int ranks);

}  // namespace tutti::spec
