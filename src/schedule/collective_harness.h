// Test-only interpreter of collectives: real buffers of random integers, ranks and entries taken in
// random order. Shares no code with the verifier: it is what the verifier is judged by.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "schedule/collective.h"

namespace tutti::schedule::harness {

/// One element: the sum modulo 2^64, and a fingerprint of how it was added (commutative, not
/// associative).
struct Value {
  std::uint64_t sum = 0;
  std::uint64_t order = 0;
  bool written = false;
  friend bool operator==(const Value&, const Value&) = default;
};
using Buffer = std::vector<Value>;

struct Outcome {
  bool stuck = false;           // nobody could go on
  bool mismatched = false;      // a message had another size than its receive
  std::size_t unread = 0;       // messages nobody took
  bool read_unwritten = false;  // an element was used that nobody had written
  std::vector<Buffer> data;     // by rank
};

Value input(int rank, std::size_t element);
Value sum(const Value& a, const Value& b);

/// Runs the lists to the end or until nobody can go on, in an order drawn from `random`.
Outcome run(const CollectiveSchedule& schedule, const StepLists& lists, int slots,
            std::mt19937& random);

/// What is wrong with the result, judged by the operation's meaning alone; empty if nothing is.
std::string wrong_result(const CollectiveSchedule& schedule, const std::vector<Buffer>& data);

/// Ranks' values of one element added in plain rank order.
Value rank_order_sum(int ranks, std::size_t element);

}  // namespace tutti::schedule::harness
