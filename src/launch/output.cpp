// Pipes, lines and a bounded queue.
#include "launch/output.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <utility>

#include "core/error.h"

namespace tutti::launch {
namespace {

constexpr std::size_t kLongestLine = 64 << 10;
constexpr std::size_t kMostQueued = 16 << 20;

}  // namespace

std::string LinePrefixer::take(std::string_view bytes) {
  std::string out;
  while (!bytes.empty()) {
    const std::size_t newline = bytes.find('\n');
    const std::size_t room = kLongestLine - open_.size();
    const std::size_t length = std::min({newline, bytes.size(), room});
    open_ += bytes.substr(0, length);
    bytes.remove_prefix(length);
    const bool ends = !bytes.empty() && bytes.front() == '\n';
    if (ends) bytes.remove_prefix(1);
    if (ends || open_.size() == kLongestLine) {
      out.append(prefix_).append(open_).push_back('\n');
      open_.clear();
    }
  }
  return out;
}

std::string LinePrefixer::finish() {
  if (open_.empty()) return {};
  std::string line = prefix_ + open_ + '\n';
  open_.clear();
  return line;
}

void OutputQueue::push(std::string text) {
  if (text.empty()) return;
  if (bytes_ + text.size() > kMostQueued) {
    dropped_bytes_ += text.size();
    return;
  }
  if (dropped_bytes_ > 0) {
    std::string gap = fmt::format("tutti: {} bytes of output dropped: the reader is too slow\n",
                                  std::exchange(dropped_bytes_, 0));
    bytes_ += gap.size();
    texts_.push_back(std::move(gap));
  }
  bytes_ += text.size();
  texts_.push_back(std::move(text));
}

void OutputQueue::write_some() {
  while (!texts_.empty()) {
    // A pipe that poll() calls writable takes PIPE_BUF bytes without waiting, and the descriptor
    // may be shared, so it is not made non-blocking.
    pollfd ready{fd_, POLLOUT, 0};
    if (::poll(&ready, 1, 0) <= 0) return;
    const std::string& text = texts_.front();
    const std::size_t size = std::min<std::size_t>(PIPE_BUF, text.size() - written_);
    const ssize_t done = ::write(fd_, text.data() + written_, size);
    if (done < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (done < 0) {  // nobody reads any more: what follows is nobody's either
      texts_.clear();
      written_ = bytes_ = 0;
      return;
    }
    written_ += static_cast<std::size_t>(done);
    bytes_ -= static_cast<std::size_t>(done);
    if (written_ == text.size()) {
      texts_.pop_front();
      written_ = 0;
    }
  }
}

Forwarder::Forwarder(std::string prefix, OutputQueue& to) : lines_(std::move(prefix)), to_(to) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) core::throw_errno("pipe");
  read_end_ = core::Fd(ends[0]);
  write_end_ = core::Fd(ends[1]);
  ::fcntl(read_end_.get(), F_SETFL, O_NONBLOCK);
}

void Forwarder::read_some() {
  std::array<char, 16384> buffer;
  for (int i = 0; i < 16 && read_end_; ++i) {  // then the others have their turn
    const ssize_t got = ::read(read_end_.get(), buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) return;
    if (got <= 0) return finish();
    to_.push(lines_.take({buffer.data(), static_cast<std::size_t>(got)}));
  }
}

void Forwarder::finish() {
  to_.push(lines_.finish());
  read_end_ = core::Fd();
}

}  // namespace tutti::launch
