// Ranks for tests: as threads of this process or as forked processes, and the store they meet in.
#pragma once

#include <sys/types.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "comm/shared_memory.h"
#include "comm/store.h"
#include "comm/world.h"

namespace tutti::comm::testing {

/// A store in memory that forked children share with their parent, so it serves threads and
/// processes alike. At most 1,024 keys of 127 characters with values of 511.
class SharedStore : public Store {
 public:
  SharedStore();
  void set(std::string_view key, std::string_view value) override;
  std::string get(std::string_view key, const core::Deadline& deadline) override;
  std::int64_t add(std::string_view key, std::int64_t delta) override;

 private:
  struct Table;
  class Lock;
  std::unique_ptr<Mapping> memory_;
  [[nodiscard]] Table& table() const;
};

/// What each rank runs.
using RankBody = std::function<void(World& world, int rank)>;

/// Wires `ranks` threads up and runs `body` in each with a World of its own. Returns each rank's
/// error, empty where it ended well; all errors are prefixed with their rank.
std::vector<std::string> run_as_threads(int ranks, const RankBody& body,
                                        WireUpOptions options = {});

/// One forked rank; its error text is sent to the parent.
class Process {
 public:
  /// Forks; the child runs `body` and exits without returning.
  explicit Process(const std::function<void()>& body);
  Process(Process&& other) noexcept
      : pid_(std::exchange(other.pid_, -1)), from_child_(std::move(other.from_child_)) {}
  ~Process();  // kills it if it still runs
  [[nodiscard]] pid_t pid() const { return pid_; }
  void signal(int number) const;
  /// Waits for its end; the text of what it threw, empty if nothing, "killed by signal 9". Throws
  /// core::RunError if it still runs at the deadline.
  std::string result(const core::Deadline& deadline);

 private:
  pid_t pid_ = -1;
  core::Fd from_child_;
};

/// Wires `ranks` processes up like run_as_threads; the caller waits for them.
std::vector<Process> start_processes(SharedStore& store, int ranks, const RankBody& body,
                                     const WireUpOptions& options = {});

}  // namespace tutti::comm::testing
