// One loop over one poll: signals, ends of ranks, their output, and deadlines.
#include "launch/job.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <random>

#include "core/clock.h"
#include "core/error.h"
#include "launch/output.h"
#include "launch/signals.h"
#include "launch/spawn.h"

namespace tutti::launch {
namespace {

/// A socket listening on a free port of the loopback address.
core::Fd listen_anywhere(int& port) {
  core::Fd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  if (fd.get() < 0 || ::bind(fd.get(), generic, size) != 0 || ::listen(fd.get(), SOMAXCONN) != 0 ||
      ::getsockname(fd.get(), generic, &size) != 0) {
    core::throw_errno("listening on 127.0.0.1");
  }
  port = ntohs(address.sin_port);
  return fd;
}

std::string new_run_id() {
  std::random_device random;
  return fmt::format("{:08x}{:08x}", random(), random());
}

/// A rank, its process and the streams that it writes.
struct Rank {
  Process process;
  bool running = false;
  std::vector<std::unique_ptr<Forwarder>> streams;
};

class Job {
 public:
  explicit Job(const JobOptions& options) : options_(options), policy_(options.grace) {}
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;
  ~Job() { bury(); }

  JobResult run();

 private:
  void start_all();
  void start(int rank, const SpawnOptions& common);
  void wait_for_something();
  void take_signals();
  void take_ends();
  void obey();
  void drain_output();
  void signal_groups(int signal, bool ended_too);
  void bury();
  [[nodiscard]] bool any_running() const {
    return std::any_of(ranks_.begin(), ranks_.end(), [](const Rank& rank) { return rank.running; });
  }
  [[nodiscard]] double now_s() const { return watch_.elapsed().count(); }

  const JobOptions& options_;
  core::Stopwatch watch_;
  SignalQueue signals_;
  EndPolicy policy_;
  OutputQueue out_{STDOUT_FILENO};
  OutputQueue err_{STDERR_FILENO};
  std::vector<Rank> ranks_;
};

void Job::start_all() {
  int port = 0;
  core::Fd store = listen_anywhere(port);
  SpawnOptions common{.program = options_.program, .args = options_.args, .env = options_.env};
  common.env["WORLD_SIZE"] = common.env["LOCAL_WORLD_SIZE"] = std::to_string(options_.ranks);
  common.env["MASTER_ADDR"] = "127.0.0.1";
  common.env["MASTER_PORT"] = std::to_string(port);
  common.env["TUTTI_RUN_ID"] = new_run_id();
  common.env["TUTTI_STORE_FD"] = "";  // not that of a launcher further up
  if (!options_.hand_store) store = core::Fd();
  for (int rank = 0; rank < options_.ranks; ++rank) {
    SpawnOptions one = common;
    if (rank == 0 && options_.hand_store) {
      one.inherit_fd = store.get();
      one.env["TUTTI_STORE_FD"] = std::to_string(store.get());
    }
    start(rank, one);
  }
}

void Job::start(int rank, const SpawnOptions& common) {
  SpawnOptions spawned = common;
  spawned.env["RANK"] = spawned.env["LOCAL_RANK"] = std::to_string(rank);
  if (!options_.cpus.empty()) spawned.cpus = options_.cpus.at(static_cast<std::size_t>(rank));
  core::Fd nothing;  // these live until the child has its own copies
  core::Fd log;
  if (rank > 0 ||
      ::isatty(STDIN_FILENO) == 1) {  // a group in the background must not read the terminal
    nothing = core::Fd(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    spawned.stdin_fd = nothing.get();
  }
  Rank& entry = ranks_.emplace_back();
  if (options_.prefix) {
    for (OutputQueue* queue : {&out_, &err_}) {
      entry.streams.push_back(std::make_unique<Forwarder>(fmt::format("[{}] ", rank), *queue));
    }
    spawned.stdout_fd = entry.streams[0]->child_end();
    spawned.stderr_fd = entry.streams[1]->child_end();
  } else if (rank > 0 && !options_.log_folder.empty()) {
    const auto path = options_.log_folder / fmt::format("rank-{}.txt", rank);
    log = core::Fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666));
    if (log.get() < 0) core::throw_errno(fmt::format("open of {}", path.string()));
    spawned.stdout_fd = spawned.stderr_fd = log.get();
  }
  entry.process = spawn(spawned);
  entry.running = true;
  for (const auto& stream : entry.streams) stream->close_child_end();
}

void Job::wait_for_something() {
  std::vector<pollfd> watched = {{signals_.fd(), POLLIN, 0}};
  for (const Rank& rank : ranks_) {
    if (rank.running) watched.push_back({rank.process.pidfd.get(), POLLIN, 0});
    for (const auto& stream : rank.streams) {
      if (stream->fd() >= 0) watched.push_back({stream->fd(), POLLIN, 0});
    }
  }
  for (const OutputQueue* queue : {&out_, &err_}) {
    if (!queue->empty()) watched.push_back({queue->fd(), POLLOUT, 0});
  }
  int timeout_ms = -1;  // ranks may run for weeks; only what was asked of them has a deadline
  if (const auto deadline = policy_.next_deadline_s()) {
    timeout_ms = std::max(0, static_cast<int>(std::ceil((*deadline - now_s()) * 1e3)));
  }
  if (::poll(watched.data(), watched.size(), timeout_ms) < 0 && errno != EINTR) {
    core::throw_errno("poll");
  }
}

void Job::take_signals() {
  while (const auto signal = signals_.next()) {
    if (*signal ==
        SIGTSTP) {  // Ctrl-Z: the ranks are not in the terminal's group, so they stop with us
      signal_groups(SIGSTOP, false);
      ::kill(::getpid(), SIGSTOP);
    } else if (*signal == SIGCONT) {
      signal_groups(SIGCONT, false);
    } else {
      signal_groups(*signal, false);
      policy_.signalled(*signal, now_s());
    }
  }
}

void Job::take_ends() {
  for (std::size_t i = 0; i < ranks_.size(); ++i) {
    Rank& rank = ranks_[i];
    // Only looked at, not reaped: until bury() its number names its process group and nobody
    // else's.
    siginfo_t info = {};
    if (!rank.running ||
        ::waitid(P_PID, static_cast<id_t>(rank.process.pid), &info, WEXITED | WNOHANG | WNOWAIT) !=
            0 ||
        info.si_pid == 0) {
      continue;
    }
    rank.running = false;
    RankEnd end{.rank = static_cast<int>(i), .pid = rank.process.pid, .after_s = now_s()};
    (info.si_code == CLD_EXITED ? end.exit_status : end.signal) = info.si_status;
    policy_.ended(end);
  }
}

void Job::obey() {
  const Action action = policy_.due(now_s());
  if (action == Action::Terminate) signal_groups(SIGTERM, false);
  if (action == Action::Kill) signal_groups(SIGKILL, true);
}

/// `ended_too`: also what a rank that has ended left behind in its group.
void Job::signal_groups(int signal, bool ended_too) {
  for (const Rank& rank : ranks_) {
    if (rank.process.pid > 0 && (rank.running || ended_too)) ::kill(-rank.process.pid, signal);
  }
}

/// After the last rank's end: what is in the pipes still goes out, with a deadline, for what the
/// ranks forked may hold them open and the reader may be asleep.
void Job::drain_output() {
  for (Rank& rank : ranks_) {
    for (const auto& stream : rank.streams) {
      stream->read_some();
      stream->finish();
    }
  }
  const core::Deadline deadline(core::Seconds(1));
  while ((!out_.empty() || !err_.empty()) && !deadline.passed()) {
    std::vector<pollfd> watched;
    for (const OutputQueue* queue : {&out_, &err_}) {
      if (!queue->empty()) watched.push_back({queue->fd(), POLLOUT, 0});
    }
    ::poll(watched.data(), watched.size(),
           std::max(0, static_cast<int>(deadline.left().count() * 1e3)));
    out_.write_some();
    err_.write_some();
  }
}

/// Kills what is left of ranks that ended badly or were stopped, and reaps them all.
void Job::bury() {
  if (any_running() || policy_.exit_status() != 0) signal_groups(SIGKILL, true);
  for (Rank& rank : ranks_) {
    if (rank.process.pid > 0) ::waitpid(rank.process.pid, nullptr, 0);
  }
  ranks_.clear();
}

JobResult Job::run() {
  start_all();
  while (any_running()) {
    wait_for_something();
    take_signals();
    take_ends();
    obey();
    for (Rank& rank : ranks_) {
      for (const auto& stream : rank.streams) stream->read_some();
    }
    out_.write_some();
    err_.write_some();
  }
  drain_output();
  JobResult result{.exit_status = policy_.exit_status()};
  if (const auto& failure = policy_.first_failure()) {
    result.closing_line = fmt::format("{}; the other ranks were stopped.", describe(*failure));
    if (options_.ranks == 1) result.closing_line = describe(*failure) + ".";
    if (failure->rank > 0 && !options_.prefix && !options_.log_folder.empty()) {
      const auto log = options_.log_folder / fmt::format("rank-{}.txt", failure->rank);
      result.closing_line += fmt::format(" Its output: {}", log.string());
    }
  }
  return result;
}

}  // namespace

JobResult run_job(const JobOptions& options) { return Job(options).run(); }

}  // namespace tutti::launch
