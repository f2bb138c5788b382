// Sums as symbols: which ranks' values were added, and in which order. Equal numbers mean equal
// bits for every input.
#pragma once

#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "schedule/collective.h"

namespace tutti::schedule {

/// A table of sums. A sum is a rank's own value or two sums added; a + b and b + a are the same sum
/// (floating-point addition commutes), (a + b) + c and a + (b + c) are not. Exact: no hashing of
/// meaning.
class Sums {
 public:
  static constexpr int kNothing = -1;  // an element nobody has written

  explicit Sums(int ranks) : ranks_(ranks) {}

  [[nodiscard]] int own(int rank) const { return rank; }
  int add(int a, int b);
  /// ((first + second) + third) + ...; values is not empty.
  int in_order(const std::vector<int>& values);

  /// How often each rank's value is in the sum.
  [[nodiscard]] std::vector<int> counts(int sum) const;
  /// "(0 + 1) + 2", cut after about 120 characters.
  [[nodiscard]] std::string text(int sum) const;

 private:
  void write(int sum, std::string& out) const;
  [[nodiscard]] std::pair<int, int> terms(int sum) const {
    return terms_[static_cast<std::size_t>(sum - ranks_)];
  }

  int ranks_;
  std::vector<std::pair<int, int>> terms_;  // of sum ranks_ + i
  std::unordered_map<std::uint64_t, int> known_;
};

/// A slice of Data whose elements all hold the same sum.
struct SummedSlice {
  Slice slice;
  int sum = Sums::kNothing;
};

/// The sums that a reducing schedule promises, in the order of additions that its header states,
/// for the whole Data. Made from the request alone, without looking at any list.
std::vector<SummedSlice> promised_sums(const CollectiveSchedule& schedule, Sums& sums);

}  // namespace tutti::schedule
