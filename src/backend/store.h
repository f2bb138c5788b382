// comm::Store over c10d's TCPStore: rank 0 serves, under our launcher on the socket it inherits.
#pragma once

#include <memory>
#include <string>

#include "comm/store.h"
#include "core/clock.h"

namespace tutti::backend {

struct StoreOptions {
  int rank = 0;
  std::string host = "127.0.0.1";
  int port = 0;
  int listen_fd = -1;  // rank 0: serve on this descriptor; -1: serve on `port`
  bool serve = true;   // false: rank 0 is a client too (torchrun serves)
  std::string prefix;  // of every key: the run's id
  core::Seconds timeout{60};
};

/// Connects (rank 0: serves and connects). Throws core::RunError with address, reason and cure.
std::unique_ptr<comm::Store> connect_store(const StoreOptions& options);

}  // namespace tutti::backend
