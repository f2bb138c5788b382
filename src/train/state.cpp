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

std::vector<parallel::ShardView> pieces_that_count(const parallel::Replica& replica) {
  std::vector<parallel::ShardView> pieces;
  if (!replica.first_copy()) return pieces;
  for (const parallel::ShardView& piece : replica.owned()) {
    if (replica.counts(piece.param)) pieces.push_back(piece);
  }
  return pieces;
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

// The elements of a piece from a checkpoint's tensor, which has the shape of the whole parameter.
void read_into(checkpoint::Reader& reader, const std::string& tensor, const spec::Param& param,
               const parallel::ShardView& piece, const at::Tensor& values) {
  std::vector<checkpoint::Target> targets;
  std::span<std::byte> left = tensor::bytes_of(values);
  for (const mesh::FlatSlice& run : mesh::place_in_whole(param.shape, piece.cut, piece.slice)) {
    const auto bytes = static_cast<std::size_t>(run.count) * values.element_size();
    targets.push_back({run, left.first(bytes)});
    left = left.subspan(bytes);
  }
  reader.read(tensor, targets);
}

}  // namespace

at::ScalarType parameter_type(const checkpoint::Index& index) {
  return !index.tensors.empty() && index.tensors.front().dtype == "F64" ? at::kDouble : at::kFloat;
}

Snapshot::Snapshot(const spec::ModelSpec& spec, const parallel::Replica& replica,
                   const Optimizer& optimizer) {
  const std::vector<parallel::ShardView> counted = pieces_that_count(replica);
  for (const parallel::ShardView& piece : counted)
    add(spec.params[piece.param], "", piece, piece.value);
  for (std::size_t which = 0; which < optimizer.state_names().size(); ++which) {
    for (const parallel::ShardView& piece : counted) {
      const Within within = find_piece(replica.updated(), piece);
      const at::Tensor state =
          optimizer.state(which)[within.piece].narrow(0, within.offset, piece.slice.count);
      add(spec.params[piece.param], optimizer.state_names()[which] + "/", piece, state);
    }
  }
}

Snapshot Snapshot::with_gradients(const spec::ModelSpec& spec, const parallel::Replica& replica,
                                  double grad_scale) {
  Snapshot snapshot;
  const std::vector<parallel::ShardView> counted = pieces_that_count(replica);
  for (const parallel::ShardView& piece : counted)
    snapshot.add(spec.params[piece.param], "", piece, piece.value);
  for (const parallel::ShardView& piece : counted)
    snapshot.add(spec.params[piece.param], "grad/", piece, piece.grad * grad_scale);
  return snapshot;
}

void Snapshot::add(const spec::Param& param, const std::string& prefix,
                   const parallel::ShardView& piece, const at::Tensor& values) {
  copies_.push_back(values.detach().clone());
  pieces_.push_back({.tensor = prefix + param.name,
                     .dtype = dtype_name(values),
                     .shape = param.shape,
                     .slice = piece.slice,
                     .bytes = tensor::bytes_of(copies_.back()),
                     .cut = piece.cut});
}

Progress load(const std::filesystem::path& checkpoint, const spec::ModelSpec& spec,
              parallel::Replica& replica, Optimizer& optimizer, const core::Json& model) {
  const at::NoGradGuard no_grad;
  checkpoint::Reader reader(checkpoint);
  core::throw_if_any(checkpoint::check_model(reader.index(), model));
  const auto& pieces = replica.updated();
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const spec::Param& param = spec.params[pieces[i].param];
    read_into(reader, param.name, param, pieces[i], pieces[i].value);
    for (std::size_t which = 0; which < optimizer.state_names().size(); ++which) {
      read_into(reader, optimizer.state_names()[which] + "/" + param.name, param, pieces[i],
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
  for (const parallel::ShardView& piece : replica.owned()) {
    const spec::Param& param = spec.params[piece.param];
    read_into(reader, param.name, param, piece, piece.value);
  }
  replica.publish_owned();
}

std::uint64_t owned_param_hash(const spec::ModelSpec& spec, const parallel::Replica& replica) {
  std::uint64_t sum = 0;
  for (const parallel::ShardView& piece : pieces_that_count(replica)) {
    const spec::Param& param = spec.params[piece.param];
    AT_DISPATCH_FLOATING_TYPES(piece.value.scalar_type(), "param_hash", [&] {
      const auto* values = piece.value.const_data_ptr<scalar_t>();
      for (const mesh::FlatSlice& run : mesh::place_in_whole(param.shape, piece.cut, piece.slice)) {
        sum += core::param_hash(
            param.name, static_cast<std::uint64_t>(run.first),
            std::span<const scalar_t>(values, static_cast<std::size_t>(run.count)));
        values += run.count;
      }
    });
  }
  return sum;
}

}  // namespace tutti::train
