// Where ranks meet before they can talk: a small key-value store. c10d's TCPStore (backend/store)
// or AF_UNIX (launch/local_store).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/clock.h"

namespace tutti::comm {

class Store {
 public:
  virtual ~Store() = default;

  virtual void set(std::string_view key, std::string_view value) = 0;

  /// Waits until the key is there. Throws core::PeerError naming the key when the deadline passes.
  virtual std::string get(std::string_view key, const core::Deadline& deadline) = 0;

  /// Adds to a counter (0 if new) and returns the new value.
  virtual std::int64_t add(std::string_view key, std::int64_t delta) = 0;
};

}  // namespace tutti::comm
