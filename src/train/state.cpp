// Parameters and optimizer state as pieces of logical tensors, out and in.
#include "train/state.h"

#include "checkpoint/reader.h"
#include "core/hash.h"
#include "tensor/runtime.h"

namespace tutti::train {
namespace {

std::string dtype_name(const at::Tensor& tensor) {
  return tensor.scalar_type() == at::kDouble ? "F64" : "F32";
}

// The piece of `updated` (larger or equal) that `owned` is, as a range of its elements.
struct Within {
  std::size_t piece;
  std::int64_t offset;
};
Within find_piece(const std::vector<parallel::ShardView>& updated,
                  const parallel::ShardView& owned) {
  for (std::size_t i = 0; i < updated.size(); ++i) {
    const mesh::FlatSlice& slice = updated[i].slice;
    if (updated[i].param == owned.param && slice.first <= owned.slice.first &&
        owned.slice.first + owned.slice.count <= slice.first + slice.count) {
      return {i, owned.slice.first - slice.first};
    }
  }
  TUTTI_CHECK(false, "an owned piece of parameter {} is not updated", owned.param);
  return {};
}

void read_into(checkpoint::Reader& reader, const std::string& tensor, mesh::FlatSlice slice,
               const at::Tensor& values) {
  const checkpoint::Target target{slice, tensor::bytes_of(values)};
  reader.read(tensor, {&target, 1});
}

}  // namespace

at::ScalarType parameter_type(const checkpoint::Index& index) {
  return !index.tensors.empty() && index.tensors.front().dtype == "F64" ? at::kDouble : at::kFloat;
}

Snapshot::Snapshot(const spec::ModelSpec& spec, const parallel::Replica& replica,
                   const Optimizer& optimizer) {
  for (const parallel::ShardView& piece : replica.owned())
    add(spec.params[piece.param], "", piece.slice, piece.value);
  for (std::size_t which = 0; which < optimizer.state_names().size(); ++which) {
    for (const parallel::ShardView& piece : replica.owned()) {
      const Within within = find_piece(replica.updated(), piece);
      const at::Tensor state =
          optimizer.state(which)[within.piece].narrow(0, within.offset, piece.slice.count);
      add(spec.params[piece.param], optimizer.state_names()[which] + "/", piece.slice, state);
    }
  }
}

Snapshot Snapshot::with_gradients(const spec::ModelSpec& spec, const parallel::Replica& replica,
                                  double grad_scale) {
  Snapshot snapshot;
  for (const parallel::ShardView& piece : replica.owned())
    snapshot.add(spec.params[piece.param], "", piece.slice, piece.value);
  for (const parallel::ShardView& piece : replica.owned()) {
    snapshot.add(spec.params[piece.param], "grad/", piece.slice, piece.grad * grad_scale);
  }
  return snapshot;
}

void Snapshot::add(const spec::Param& param, const std::string& prefix, mesh::FlatSlice slice,
                   const at::Tensor& values) {
  copies_.push_back(values.detach().clone());
  pieces_.push_back({.tensor = prefix + param.name,
                     .dtype = dtype_name(values),
                     .shape = param.shape,
                     .slice = slice,
                     .bytes = tensor::bytes_of(copies_.back())});
}

Progress load(const std::filesystem::path& checkpoint, const spec::ModelSpec& spec,
              parallel::Replica& replica, Optimizer& optimizer, const core::Json& model) {
  const at::NoGradGuard no_grad;
  checkpoint::Reader reader(checkpoint);
  core::throw_if_any(checkpoint::check_model(reader.index(), model));
  const auto& pieces = replica.updated();
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const std::string& name = spec.params[pieces[i].param].name;
    read_into(reader, name, pieces[i].slice, pieces[i].value);
    for (std::size_t which = 0; which < optimizer.state_names().size(); ++which) {
      read_into(reader, optimizer.state_names()[which] + "/" + name, pieces[i].slice,
                optimizer.state(which)[i]);
    }
  }
  optimizer.set_steps(reader.index().step);
  replica.publish_owned();
  return {.step = reader.index().step,
          .samples = reader.index().samples,
          .valid_loss = reader.index().valid_loss};
}

void load_parameters(const std::filesystem::path& checkpoint, const spec::ModelSpec& spec,
                     parallel::Replica& replica) {
  const at::NoGradGuard no_grad;
  checkpoint::Reader reader(checkpoint);
  for (const parallel::ShardView& piece : replica.owned())
    read_into(reader, spec.params[piece.param].name, piece.slice, piece.value);
  replica.publish_owned();
}

std::uint64_t owned_param_hash(const spec::ModelSpec& spec, const parallel::Replica& replica) {
  std::uint64_t sum = 0;
  for (const parallel::ShardView& piece : replica.owned()) {
    AT_DISPATCH_FLOATING_TYPES(piece.value.scalar_type(), "param_hash", [&] {
      sum += core::param_hash(
          spec.params[piece.param].name, static_cast<std::uint64_t>(piece.slice.first),
          std::span<const scalar_t>(piece.value.data_ptr<scalar_t>(),
                                    static_cast<std::size_t>(piece.slice.count)));
    });
  }
  return sum;
}

}  // namespace tutti::train
