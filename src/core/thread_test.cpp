// Threads have names and no signals; the queue between them is bounded and ends.
#include "core/thread.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <sched.h>

#include <atomic>
#include <csignal>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <vector>

namespace tutti::core {
namespace {

TEST(StartThread, NamesTheThreadWithinTheKernelsLimit) {
  std::string seen;
  start_thread("a-name-that-is-too-long", [&](std::stop_token) {
    char name[64];
    pthread_getname_np(pthread_self(), name, sizeof name);
    seen = name;
  }).join();
  EXPECT_EQ(seen, "a-name-that-is-");
}

TEST(StartThread, BlocksSignalsThereButNotHere) {
  sigset_t before, after, inside;
  pthread_sigmask(SIG_SETMASK, nullptr, &before);
  start_thread("t", [&](std::stop_token) {
    pthread_sigmask(SIG_SETMASK, nullptr, &inside);
  }).join();
  pthread_sigmask(SIG_SETMASK, nullptr, &after);
  for (const int signal : {SIGINT, SIGTERM, SIGCHLD, SIGUSR1}) {
    EXPECT_EQ(sigismember(&inside, signal), 1);
    EXPECT_EQ(sigismember(&before, signal), sigismember(&after, signal));
  }
}

TEST(StartThread, StopsWhenItsOwnerDies) {
  std::atomic<bool> stopped = false;
  {
    const std::jthread thread = start_thread("t", [&](std::stop_token stop) {
      std::mutex mutex;
      std::condition_variable_any wake;
      std::unique_lock lock(mutex);
      wake.wait(lock, stop, [] { return false; });
      stopped = true;
    });
  }
  EXPECT_TRUE(stopped);
}

TEST(StartThreadDeathTest, AnEscapedErrorAbortsWithItsText) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      start_thread("loader", [](std::stop_token) { throw std::runtime_error("no such file"); })
          .join(),
      "thread \"loader\" let an error escape: no such file");
}

TEST(BoundedQueue, KeepsOrderAndDrainsAfterClose) {
  BoundedQueue<int> queue(3);
  EXPECT_TRUE(queue.push(1));
  EXPECT_TRUE(queue.push(2));
  queue.close();
  EXPECT_FALSE(queue.push(3));
  EXPECT_EQ(queue.pop(), 1);
  EXPECT_EQ(queue.pop(), 2);
  EXPECT_EQ(queue.pop(), std::nullopt);
}

TEST(BoundedQueue, NeverHoldsMoreThanItsCapacity) {
  BoundedQueue<std::unique_ptr<int>> queue(2);
  std::atomic<int> pushed = 0, popped = 0, excess = 0;
  auto producer = start_thread("producer", [&](std::stop_token) {
    for (int i = 0; i < 1000; ++i) {
      if (!queue.push(std::make_unique<int>(i))) return;
      // The consumer counts after it pops, so one item may be on its way.
      if (++pushed - popped > 2 + 1) ++excess;
    }
    queue.close();
  });
  int expected = 0;
  while (auto item = queue.pop()) {
    ASSERT_EQ(**item, expected++);
    ++popped;
  }
  EXPECT_EQ(expected, 1000);
  EXPECT_EQ(excess, 0);
}

TEST(BoundedQueue, ClosingWakesAWaitingProducerAndAWaitingConsumer) {
  BoundedQueue<int> full(1), empty(1);
  full.push(0);
  std::atomic<bool> refused = false, ended = false;
  {
    auto producer = start_thread("producer", [&](std::stop_token) { refused = !full.push(1); });
    auto consumer = start_thread("consumer", [&](std::stop_token) { ended = !empty.pop(); });
    full.close();
    empty.close();
  }
  EXPECT_TRUE(refused);
  EXPECT_TRUE(ended);
}

TEST(UsableCores, FollowsTheAffinityMask) {
  cpu_set_t before;
  ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
  EXPECT_EQ(usable_cores(), CPU_COUNT(&before));
  cpu_set_t one;
  CPU_ZERO(&one);
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &before) && CPU_COUNT(&one) == 0) CPU_SET(cpu, &one);
  }
  ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
  EXPECT_EQ(usable_cores(), 1);
  sched_setaffinity(0, sizeof before, &before);
}

}  // namespace
}  // namespace tutti::core
