// One file descriptor, one owner.
#pragma once

#include <unistd.h>

#include <utility>

namespace tutti::core {

/// Owns one file descriptor and closes it. Moves, never copies. Not thread-safe.
class Fd {
 public:
  Fd() = default;  // owns nothing
  explicit Fd(int fd) noexcept : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, kNone)) {}
  Fd& operator=(Fd other) noexcept {  // by value: the old descriptor closes here
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Fd() {
    if (fd_ != kNone) ::close(fd_);
  }

  [[nodiscard]] int get() const noexcept { return fd_; }
  [[nodiscard]] int release() noexcept { return std::exchange(fd_, kNone); }
  explicit operator bool() const noexcept { return fd_ != kNone; }

 private:
  static constexpr int kNone = -1;
  int fd_ = kNone;
};

}  // namespace tutti::core
