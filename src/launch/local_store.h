// A store over AF_UNIX for commands and tests without LibTorch: one process serves, all others ask.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

#include "comm/store.h"
#include "core/fd.h"

namespace tutti::launch {

/// Serves a store on an abstract AF_UNIX address (no file) from a thread of its own for as long as
/// it lives. Only processes of the same user are answered; a client that breaks the protocol is cut
/// off. Throws core::RunError if the socket cannot be had.
class LocalStoreServer {
 public:
  LocalStoreServer();
  LocalStoreServer(const LocalStoreServer&) = delete;
  LocalStoreServer& operator=(const LocalStoreServer&) = delete;
  ~LocalStoreServer();

  /// What clients connect to: hand it on in an environment variable or argument.
  [[nodiscard]] const std::string& address() const { return address_; }

 private:
  void serve(const std::stop_token& stop);
  bool answer(int client);

  core::Fd listener_, wake_;  // wake_: an eventfd that ends the thread's wait
  std::string address_;
  std::map<std::string, std::string, std::less<>> values_;  // of the serving thread alone
  std::jthread thread_;
};

/// A client. Keys and values together at most 60,000 bytes. Thread-safe.
class LocalStore : public comm::Store {
 public:
  /// Throws core::RunError if nobody serves that address.
  explicit LocalStore(const std::string& address);
  void set(std::string_view key, std::string_view value) override;
  std::string get(std::string_view key, const core::Deadline& deadline) override;
  std::int64_t add(std::string_view key, std::int64_t delta) override;

 private:
  std::string ask(char verb, std::string_view key, std::string_view value);

  std::mutex mutex_;
  core::Fd socket_;
};

}  // namespace tutti::launch
