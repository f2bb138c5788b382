// fork and exec. Between the two only async-signal-safe calls: everything they need is made before.
#include "launch/spawn.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>

#include "core/error.h"

extern char** environ;

namespace tutti::launch {
namespace {

std::vector<std::string> environment_with(const std::map<std::string, std::string>& changes) {
  std::vector<std::string> result;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    if (!changes.contains(std::string(text.substr(0, text.find('='))))) result.emplace_back(text);
  }
  for (const auto& [name, value] : changes) {
    if (!value.empty()) result.push_back(name + "=" + value);
  }
  return result;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> result;
  for (std::string& text : texts) result.push_back(text.data());
  result.push_back(nullptr);
  return result;
}

/// Room for any CPU number there is: cpu_set_t ends at 1,024.
std::vector<unsigned long> mask_of(const std::vector<int>& cpus) {
  constexpr int kBits = 8 * sizeof(unsigned long);
  std::vector<unsigned long> mask;
  for (const int cpu : cpus) {
    const auto word = static_cast<std::size_t>(cpu / kBits);
    if (mask.size() <= word) mask.resize(word + 1);
    mask[word] |= 1UL << (cpu % kBits);
  }
  return mask;
}

struct Child {
  const SpawnOptions& options;
  char** argv;
  char** env;
  const std::vector<unsigned long>& mask;
  pid_t launcher;
  int report_fd;  // close-on-exec: closes silently if exec succeeds
};

[[noreturn]] void fail(const Child& child) {
  const int error = errno;
  const ssize_t written = ::write(child.report_fd, &error, sizeof error);
  ::_exit(written == sizeof error ? 127 : 126);
}

bool place(int fd, int target) { return fd < 0 || ::dup2(fd, target) == target; }

[[noreturn]] void run_child(const Child& child) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != child.launcher) ::_exit(126);  // it died before the line above
  // Through the kernel: glibc's own calls refuse the two signals that its threads use, and a
  // program between a terminal and us may have left those ignored. All zeros are the default
  // action; the kernel's struct has at most four words.
  const std::uint64_t standard[4] = {};
  const std::uint64_t none = 0;
  for (int signal = 1; signal <= 64; ++signal) {
    ::syscall(SYS_rt_sigaction, signal, standard, nullptr, sizeof(none));
  }
  ::syscall(SYS_rt_sigprocmask, SIG_SETMASK, &none, nullptr, sizeof(none));
  const SpawnOptions& options = child.options;
  if (!child.mask.empty()) {
    const auto* set = reinterpret_cast<const cpu_set_t*>(child.mask.data());
    if (::sched_setaffinity(0, child.mask.size() * sizeof(unsigned long), set) != 0) fail(child);
  }
  if (!place(options.stdin_fd, 0) || !place(options.stdout_fd, 1) || !place(options.stderr_fd, 2)) {
    fail(child);
  }
  if (options.inherit_fd >= 0 && ::fcntl(options.inherit_fd, F_SETFD, 0) != 0) fail(child);
  ::execvpe(child.argv[0], child.argv, child.env);
  fail(child);
}

}  // namespace

Process spawn(const SpawnOptions& options) {
  std::vector<std::string> args = {options.program.string()};
  args.insert(args.end(), options.args.begin(), options.args.end());
  std::vector<std::string> env = environment_with(options.env);
  std::vector<char*> argv = pointers(args);
  std::vector<char*> envp = pointers(env);
  const std::vector<unsigned long> mask = mask_of(options.cpus);
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) core::throw_errno("pipe");
  const core::Fd read_end(ends[0]);
  core::Fd write_end(ends[1]);

  const Child child{options, argv.data(), envp.data(), mask, ::getpid(), write_end.get()};
  const pid_t pid = ::fork();
  if (pid < 0) core::throw_errno(fmt::format("fork for {}", options.program.string()));
  if (pid == 0) run_child(child);

  write_end = core::Fd();
  ::setpgid(pid, pid);  // whoever comes first: a signal to the group must find it
  int error = 0;
  ssize_t got = 0;
  do {
    got = ::read(read_end.get(), &error, sizeof error);
  } while (got < 0 && errno == EINTR);
  if (got == 0) {
    core::Fd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));  // close-on-exec by itself
    if (pidfd.get() >= 0) return {pid, std::move(pidfd)};
    error = errno;
    ::kill(pid, SIGKILL);
  }
  ::waitpid(pid, nullptr, 0);
  throw core::ConfigError(
      fmt::format("{} cannot be started: {}. Check the path and that it may be executed.",
                  options.program.string(), std::strerror(error)));
}

}  // namespace tutti::launch
