// The same benchmark through backend::Group: what the face for tensors costs.
#include "backend/group.h"
#include "cli/bench_form.h"
#include "cli/rank_commands.h"

namespace tutti::cli {
namespace {

using comm::Collective;

at::ScalarType scalar_type(comm::DType dtype) {
  switch (dtype) {
    case comm::DType::Float32:
      return at::kFloat;
    case comm::DType::Float64:
      return at::kDouble;
    case comm::DType::BFloat16:
      return at::kBFloat16;
    case comm::DType::Float16:
      return at::kHalf;
    case comm::DType::Int8:
      return at::kChar;
    case comm::DType::Int16:
      return at::kShort;
    case comm::DType::Int32:
      return at::kInt;
    case comm::DType::Int64:
      return at::kLong;
    case comm::DType::UInt8:
      return at::kByte;
    case comm::DType::Bool:
      return at::kBool;
  }
  return at::kFloat;
}

// Tensors are made once, as a training step holds them.
class GroupOperation final : public BenchOperation {
 public:
  GroupOperation(const comm::Communicator& communicator, Collective op, std::size_t bytes,
                 const BenchOptions& bench)
      : BenchOperation(communicator, op, bytes, bench), tensors_(communicator) {
    const auto part = static_cast<std::int64_t>(share());
    const auto whole = static_cast<std::int64_t>(count_);
    in_whole_ = view(in_, whole);
    in_part_ = view(in_, part);
    out_whole_ = view(out_, whole);
    out_part_ = view(out_, part);
    out_all_ = view(out_, part * static_cast<std::int64_t>(counts_.size()));
  }

  void run() override {
    const int me = tensors_.rank(), ranks = tensors_.size();
    switch (op_) {
      case Collective::AllReduce:
        return tensors_.all_reduce(in_whole_, options().reduce, "bench", statistics()).wait();
      case Collective::Reduce:
        return tensors_.reduce(in_whole_, options().reduce, 0, "bench").wait();
      case Collective::ReduceScatter:
        return tensors_
            .reduce_scatter(out_part_, in_whole_, counts_, options().reduce, "bench", statistics())
            .wait();
      case Collective::AllGather:
        return tensors_.all_gather(out_whole_, in_part_, counts_, "bench").wait();
      case Collective::Broadcast:
        return tensors_.broadcast(in_whole_, 0, "bench").wait();
      case Collective::Scatter:
        return tensors_.scatter(out_part_, in_whole_, counts_, 0, "bench").wait();
      case Collective::Gather:
        return tensors_.gather(out_whole_, in_part_, counts_, 0, "bench").wait();
      case Collective::AllToAll:
        return tensors_.all_to_all(out_all_, in_whole_, counts_, back_, "bench").wait();
      case Collective::Barrier:
        return tensors_.barrier("bench").wait();
      case Collective::Send:
      case Collective::Recv: {
        backend::Pending received = tensors_.recv(out_whole_, (me + ranks - 1) % ranks, 0, "bench");
        tensors_.send(in_whole_, (me + 1) % ranks, 0, "bench").wait();
        return received.wait();
      }
    }
  }

 private:
  [[nodiscard]] at::Tensor view(std::byte* data, std::int64_t count) const {
    return at::from_blob(data, {count}, at::TensorOptions(scalar_type(options().dtype)));
  }

  backend::Group tensors_;
  at::Tensor in_whole_, in_part_, out_whole_, out_part_, out_all_;
};

}  // namespace

int rank_bench(const BenchForm& form) {
  at::set_num_threads(1);  // the ranks are forked: there must be no thread to lose
  return run_bench(form,
                   [](const comm::Communicator& group, Collective op, std::size_t bytes,
                      const BenchOptions& options) -> std::unique_ptr<BenchOperation> {
                     return std::make_unique<GroupOperation>(group, op, bytes, options);
                   });
}

}  // namespace tutti::cli
