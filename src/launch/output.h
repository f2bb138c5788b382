// The ranks' output when it is forwarded: whole lines with the rank in front, and never a rank that
// waits for a reader.
#pragma once

#include <cstddef>
#include <deque>
#include <string>
#include <string_view>

#include "core/fd.h"

namespace tutti::launch {

/// Cuts a stream into lines with a prefix. Pure.
class LinePrefixer {
 public:
  explicit LinePrefixer(std::string prefix) : prefix_(std::move(prefix)) {}
  /// The lines that these bytes complete, prefixed. A line longer than 64 KiB is cut there.
  std::string take(std::string_view bytes);
  /// What is left without a newline, as a line; empty if nothing is.
  std::string finish();

 private:
  std::string prefix_;
  std::string open_;  // the line that has begun
};

/// Bytes on their way to a descriptor that may be slow: kept here, up to 16 MiB, so that nobody
/// waits. Beyond that whole texts are dropped, counted, and the gap is told in the stream.
class OutputQueue {
 public:
  explicit OutputQueue(int fd) : fd_(fd) {}
  void push(std::string text);
  [[nodiscard]] bool empty() const { return texts_.empty(); }
  [[nodiscard]] int fd() const { return fd_; }
  /// Writes what goes without waiting; call when poll() says the descriptor is ready. A closed
  /// reader empties the queue.
  void write_some();

 private:
  int fd_;  // not owned
  std::deque<std::string> texts_;
  std::size_t written_ = 0;  // of the front text
  std::size_t bytes_ = 0;
  std::size_t dropped_bytes_ = 0;
};

/// One rank's stdout or stderr on its way to the launcher's.
class Forwarder {
 public:
  /// Opens the pipe. The queue outlives it.
  Forwarder(std::string prefix, OutputQueue& to);
  /// The end for the child; close_child_end() once it has been started.
  [[nodiscard]] int child_end() const { return write_end_.get(); }
  void close_child_end() { write_end_ = core::Fd(); }
  /// What poll() watches; -1 once the stream has ended.
  [[nodiscard]] int fd() const { return read_end_ ? read_end_.get() : -1; }
  /// Takes what is there, without waiting.
  void read_some();
  /// Passes on an unfinished line. Idempotent.
  void finish();

 private:
  LinePrefixer lines_;
  OutputQueue& to_;
  core::Fd read_end_;
  core::Fd write_end_;
};

}  // namespace tutti::launch
