// Named threads that one object owns, and the queue between two of them.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>

namespace tutti::core {

/// Starts a thread with a name that `top` and `perf` show (15 characters at most). The body gets
/// the stop token. All signals are blocked in it: they belong to the main thread.
std::jthread start_thread(std::string name, std::function<void(std::stop_token)> body);

/// Cores that this process may use, by its affinity mask; at least 1.
int usable_cores();

/// A queue with at most `capacity` items between threads. close() ends it: push refuses, pop drains
/// and then is empty.
template <class T>
class BoundedQueue {
 public:
  explicit BoundedQueue(std::size_t capacity) : capacity_(capacity) {}

  /// Waits for room; false if the queue is closed.
  bool push(T item) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return closed_ || items_.size() < capacity_; });
    if (closed_) return false;
    items_.push_back(std::move(item));
    changed_.notify_all();
    return true;
  }

  /// Waits for an item; empty once the queue is closed and drained.
  std::optional<T> pop() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return closed_ || !items_.empty(); });
    if (items_.empty()) return std::nullopt;
    T item = std::move(items_.front());
    items_.pop_front();
    changed_.notify_all();
    return item;
  }

  void close() {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    changed_.notify_all();
  }

 private:
  std::size_t capacity_;
  bool closed_ = false;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<T> items_;
};

}  // namespace tutti::core
