// c10d's TCPStore behind comm::Store. The only file that sees c10d.
#include "backend/store.h"

#include <algorithm>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "core/error.h"

namespace tutti::backend {
namespace {

std::chrono::milliseconds to_ms(core::Seconds seconds) {
  return std::chrono::milliseconds(
      std::max<std::int64_t>(1, static_cast<std::int64_t>(seconds.count() * 1e3)));
}

class C10dStore final : public comm::Store {
 public:
  C10dStore(c10::intrusive_ptr<c10d::TCPStore> store, std::string prefix)
      : store_(std::move(store)), prefix_(std::move(prefix)) {}

  void set(std::string_view key, std::string_view value) override {
    guarded(key, [&] {
      store_->set(prefixed(key), std::vector<std::uint8_t>(value.begin(), value.end()));
    });
  }

  std::string get(std::string_view key, const core::Deadline& deadline) override {
    return guarded(key, [&] {
      store_->wait({prefixed(key)}, to_ms(deadline.left()));
      const std::vector<std::uint8_t> value = store_->get(prefixed(key));
      return std::string(value.begin(), value.end());
    });
  }

  std::int64_t add(std::string_view key, std::int64_t delta) override {
    return guarded(key, [&] { return store_->add(prefixed(key), delta); });
  }

 private:
  [[nodiscard]] std::string prefixed(std::string_view key) const {
    return prefix_ + "/" + std::string(key);
  }

  template <class Body>
  auto guarded(std::string_view key, Body body) -> decltype(body()) {
    try {
      return body();
    } catch (const std::exception& error) {
      // c10's texts carry a backtrace after the first line.
      const std::string text = error.what();
      throw core::PeerError(
          -1,
          fmt::format("The store has no answer for {}: {}. Either a rank did not come or rank 0, "
                      "which serves the store, is gone.",
                      key, text.substr(0, text.find('\n'))));
    }
  }

  c10::intrusive_ptr<c10d::TCPStore> store_;
  std::string prefix_;
};

}  // namespace

std::unique_ptr<comm::Store> connect_store(const StoreOptions& options) {
  c10d::TCPStoreOptions c10d_options;
  c10d_options.port = static_cast<std::uint16_t>(options.port);
  c10d_options.isServer = options.rank == 0 && options.serve;
  c10d_options.waitWorkers = false;
  c10d_options.multiTenant = true;
  c10d_options.timeout = to_ms(options.timeout);
  if (options.listen_fd >= 0 && c10d_options.isServer)
    c10d_options.masterListenFd = options.listen_fd;
  try {
    return std::make_unique<C10dStore>(
        c10::make_intrusive<c10d::TCPStore>(options.host, c10d_options), options.prefix);
  } catch (const std::exception& error) {
    const std::string text = error.what();
    throw core::RunError(fmt::format(
        "Rank {} cannot {} the store at {}:{}: {}. Check MASTER_ADDR and MASTER_PORT, and "
        "that rank 0 was started.",
        options.rank, c10d_options.isServer ? "serve" : "reach", options.host, options.port,
        text.substr(0, text.find('\n'))));
  }
}

}  // namespace tutti::backend
