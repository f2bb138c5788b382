// Threads and processes as ranks.
#include "comm/testing.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <new>
#include <stdexcept>
#include <thread>

#include "core/error.h"
#include "core/log.h"

namespace tutti::comm::testing {

struct SharedStore::Table {
  struct Entry {
    std::array<char, 128> key;
    std::array<char, 512> value;
    std::size_t length;
  };
  pthread_mutex_t mutex;
  int count;
  std::array<Entry, 1024> entries;

  Entry* find(std::string_view key) {
    for (int i = 0; i < count; ++i) {
      if (key == entries[i].key.data()) return &entries[i];
    }
    return nullptr;
  }
  void put(std::string_view key, std::string_view value) {
    Entry* entry = find(key);
    if (entry == nullptr) {
      TUTTI_CHECK(count < static_cast<int>(entries.size()) && key.size() < entries[0].key.size());
      entry = &entries[count++];
      std::memcpy(entry->key.data(), key.data(), key.size());
    }
    TUTTI_CHECK(value.size() < entry->value.size());
    std::memcpy(entry->value.data(), value.data(), value.size());
    entry->length = value.size();
  }
};

// Robust: a test may kill a process that holds it.
class SharedStore::Lock {
 public:
  explicit Lock(Table& table) : table_(table) {
    if (::pthread_mutex_lock(&table_.mutex) == EOWNERDEAD) {
      ::pthread_mutex_consistent(&table_.mutex);
    }
  }
  ~Lock() { ::pthread_mutex_unlock(&table_.mutex); }

 private:
  Table& table_;
};

SharedStore::SharedStore() {
  void* memory =
      ::mmap(nullptr, sizeof(Table), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) core::throw_errno("mapping a store for tests");
  memory_ = std::make_unique<Mapping>(static_cast<std::byte*>(memory), sizeof(Table));
  pthread_mutexattr_t attributes;
  ::pthread_mutexattr_init(&attributes);
  ::pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
  ::pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
  ::pthread_mutex_init(&table().mutex, &attributes);
  ::pthread_mutexattr_destroy(&attributes);
}

SharedStore::Table& SharedStore::table() const {
  return *reinterpret_cast<Table*>(memory_->data());
}

void SharedStore::set(std::string_view key, std::string_view value) {
  const Lock lock(table());
  table().put(key, value);
}

std::string SharedStore::get(std::string_view key, const core::Deadline& deadline) {
  for (;;) {
    {
      const Lock lock(table());
      if (const auto* entry = table().find(key)) return {entry->value.data(), entry->length};
    }
    if (deadline.passed()) {
      throw core::PeerError(-1, fmt::format("nobody set {} in the store for {:.1f} s", key,
                                            deadline.length().count()));
    }
    ::sched_yield();
  }
}

std::int64_t SharedStore::add(std::string_view key, std::int64_t delta) {
  const Lock lock(table());
  const auto* entry = table().find(key);
  const std::int64_t value =
      delta + (entry != nullptr ? std::stoll(std::string(entry->value.data(), entry->length)) : 0);
  table().put(key, std::to_string(value));
  return value;
}

std::vector<std::string> run_as_threads(int ranks, const RankBody& body, WireUpOptions options) {
  core::log::debug("{} threads as ranks", ranks);  // makes the process's logger before the threads
  SharedStore store;
  options.ranks = ranks;
  options.mappings = std::make_shared<MappingCache>();
  std::vector<std::string> errors(ranks);
  {
    std::vector<std::jthread> threads;
    for (int r = 0; r < ranks; ++r) {
      threads.emplace_back([&, r, mine = options]() mutable {
        mine.rank = r;
        try {
          World world = wire_up(&store, mine);
          body(world, r);
        } catch (const std::exception& error) {
          errors[r] = fmt::format("rank {}: {}", r, error.what());
        }
      });
    }
  }
  return errors;
}

Process::Process(const std::function<void()>& body) {
  std::array<int, 2> ends = {};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) core::throw_errno("a pipe");
  from_child_ = core::Fd(ends[0]);
  core::Fd to_parent(ends[1]);
  std::fflush(nullptr);
  pid_ = ::fork();
  if (pid_ < 0) core::throw_errno("fork");
  if (pid_ > 0) return;
  std::string text;
  try {
    body();
  } catch (const std::exception& error) {
    text = error.what();
  }
  const bool sent =
      ::write(to_parent.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size());
  ::_exit(sent ? 0 : 1);  // no destructors and no test framework of the parent
}

Process::~Process() {
  if (pid_ <= 0 || !from_child_) return;
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
}

void Process::signal(int number) const { ::kill(pid_, number); }

std::string Process::result(const core::Deadline& deadline) {
  std::string text;
  for (;;) {
    pollfd wait = {from_child_.get(), POLLIN, 0};
    const int left_ms = static_cast<int>(deadline.left().count() * 1000) + 1;
    const int ready = left_ms > 1 ? ::poll(&wait, 1, left_ms) : 0;
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) {
      throw core::RunError(
          fmt::format("process {} still runs after {:.1f} s", pid_, deadline.length().count()));
    }
    std::array<char, 4096> bytes;
    const ssize_t length = ::read(from_child_.get(), bytes.data(), bytes.size());
    if (length <= 0) break;  // its end of the pipe is closed: it has ended
    text.append(bytes.data(), static_cast<std::size_t>(length));
  }
  int status = 0;
  ::waitpid(pid_, &status, 0);
  from_child_ = core::Fd();
  if (WIFSIGNALED(status)) return fmt::format("killed by signal {}", WTERMSIG(status));
  if (WEXITSTATUS(status) != 0) return fmt::format("exit status {}", WEXITSTATUS(status));
  return text;
}

std::vector<Process> start_processes(SharedStore& store, int ranks, const RankBody& body,
                                     const WireUpOptions& options) {
  std::vector<Process> processes;
  for (int r = 0; r < ranks; ++r) {
    processes.emplace_back([&, r] {
      WireUpOptions mine = options;
      mine.rank = r;
      mine.ranks = ranks;
      World world = wire_up(&store, mine);
      body(world, r);
    });
  }
  return processes;
}

}  // namespace tutti::comm::testing
