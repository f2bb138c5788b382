// How a named thread starts: signals blocked before it exists, its name set as its first act; and
// how many there are cores for.
#include "core/thread.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <csignal>
#include <exception>

#include "core/error.h"

namespace tutti::core {
namespace {

/// Blocks every signal in the calling thread; the old mask returns at the end of the scope.
class BlockedSignals {
 public:
  BlockedSignals() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &old_);
  }
  BlockedSignals(const BlockedSignals&) = delete;
  BlockedSignals& operator=(const BlockedSignals&) = delete;
  ~BlockedSignals() { pthread_sigmask(SIG_SETMASK, &old_, nullptr); }

 private:
  sigset_t old_;
};

}  // namespace

std::jthread start_thread(std::string name, std::function<void(std::stop_token)> body) {
  const BlockedSignals
      blocked;  // inherited: no signal can reach the thread before it could block it itself
  return std::jthread([name = std::move(name), body = std::move(body)](std::stop_token stop) {
    constexpr std::size_t kLongestName = 15;  // the kernel's limit
    pthread_setname_np(pthread_self(), name.substr(0, kLongestName).c_str());
    try {
      body(std::move(stop));
    } catch (const std::exception& error) {
      TUTTI_CHECK(false, "thread \"{}\" let an error escape: {}", name, error.what());
    }
  });
}

int usable_cores() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  return ::sched_getaffinity(0, sizeof allowed, &allowed) == 0 ? std::max(1, CPU_COUNT(&allowed))
                                                               : 1;
}

}  // namespace tutti::core
