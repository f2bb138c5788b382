// Any schedule of src/schedule as an operation: the executor of the lists.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "comm/collectives.h"
#include "comm/plans.h"

namespace tutti::comm {

/// How a caller's memory relates to the schedule's Data: elements [begin, begin + count) of it.
struct DataPart {
  void* data = nullptr;
  std::size_t begin = 0, count = 0;
};

/// What a schedule is to be run on.
struct ScheduledWork {
  schedule::CollectiveRequest request;
  /// Memory of the caller that may serve as Data, if peers can reach it or need not.
  DataPart home;
  bool shared = true;  // peers read or write this rank's Data
  DataPart load;       // to be laid into Data before (count 0: nothing)
  DataPart store;      // to be taken from Data afterwards
  // all_to_all only, in elements: what goes to and comes from each rank.
  ConstBuffer input;
  std::span<const std::int64_t> send_counts, recv_counts;
  // all_reduce and reduce_scatter only; may be null. `bounds`: shares of the ranks.
  ReduceStats* stats = nullptr;
  std::vector<std::size_t> bounds;
};

/// Runs this rank's list. Data is the caller's memory where peers can reach it, else a copy in the
/// arena. Reductions of half types work on a copy in fp32, so sums are rounded once however many
/// hops they make. Sums are divided (Avg) or scaled in passes of their own.
class ScheduledOperation final : public CollectiveOperation {
 public:
  ScheduledOperation(std::shared_ptr<Group> group, const Signature& signature, Label label,
                     ScheduledWork work);
  [[nodiscard]] std::vector<int> missing() const override;

 private:
  using Step = schedule::CollectiveStep;

  void prepare(OpDescriptor& mine) override;
  void arrived() override;
  Progress run() override;

  [[nodiscard]] bool reduces() const;
  void lay_data(OpDescriptor& mine);
  void lay_input(OpDescriptor& mine);
  void lay_scratch(OpDescriptor& mine);
  void load();
  void flag_not_finite();
  void take_counts();
  [[noreturn]] void refuse_counts(int from) const;
  void find_peers();
  void store();
  void fill_stats();

  [[nodiscard]] bool is_overtaking(std::size_t entry) const;
  Progress execute(const Step& step);
  Progress send(const Step& step);
  Progress receive(const Step& step);
  Progress reach(const Step& step);
  [[nodiscard]] Envelope& outgoing(int peer) const;
  [[nodiscard]] Envelope& incoming(int peer) const;
  [[nodiscard]] std::byte* place(int rank, schedule::Space space, std::size_t element) const;
  /// The next elements of a slice of which partial_ are done; all of them have been when it is
  /// empty.
  [[nodiscard]] schedule::Slice part(const Step& step) const;
  Progress partly(const Step& step, const schedule::Slice& done);

  ScheduledWork work_;
  std::shared_ptr<const Plan> plan_;
  DType dtype_;          // of Data: fp32 where the caller's is a half type and is added
  std::size_t element_;  // bytes of one
  std::byte* data_ = nullptr;
  std::shared_ptr<std::byte> data_copy_, input_copy_;
  std::size_t scratch_bytes_ = 0, flag_bytes_ = 0;
  std::vector<std::byte*> data_of_, second_of_;  // by rank: Data; Scratch or Input
  std::vector<std::int64_t> counts_copy_;
  std::vector<std::size_t> expected_;  // all_to_all: elements from each rank

  std::size_t at_ = 0;       // first entry of the step at hand
  std::vector<bool> done_;   // its entries
  std::size_t partial_ = 0;  // elements done of the entry that is under way
  std::size_t under_way_ = 0;
};

}  // namespace tutti::comm
