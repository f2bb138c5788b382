// One packet asks, one answers. Packet: verb ('S', 'G', 'A'), length of the key (4 bytes), key,
// value.
#include "launch/local_store.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstddef>
#include <cstring>
#include <optional>
#include <stdexcept>
#include <vector>

#include "core/error.h"
#include "core/thread.h"

namespace tutti::launch {
namespace {

constexpr std::size_t kPacketBytes = 64000;
constexpr std::size_t kHeadBytes = 1 + sizeof(std::uint32_t);
constexpr char kSet = 'S', kGet = 'G', kAdd = 'A', kYes = 'Y', kNo = 'N';

struct Request {
  char verb = 0;
  std::string_view key, value;
};

// Empty unless the lengths fit.
std::optional<Request> parse(std::string_view packet) {
  if (packet.size() < kHeadBytes) return std::nullopt;
  std::uint32_t length = 0;
  std::memcpy(&length, packet.data() + 1, sizeof(length));
  if (length > packet.size() - kHeadBytes) return std::nullopt;
  return Request{packet[0], packet.substr(kHeadBytes, length), packet.substr(kHeadBytes + length)};
}

std::optional<std::int64_t> number(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

core::Fd new_socket() {
  core::Fd fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (!fd) core::throw_errno("an AF_UNIX socket for the store");
  return fd;
}

bool same_user(int socket) {
  ucred who = {};
  socklen_t length = sizeof(who);
  return ::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &who, &length) == 0 &&
         who.uid == ::geteuid();
}

}  // namespace

LocalStoreServer::LocalStoreServer() : listener_(new_socket()), wake_(::eventfd(0, EFD_CLOEXEC)) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;  // the family alone: the kernel picks a free abstract name
  socklen_t length = sizeof(sa_family_t);
  if (!wake_ || ::bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), length) != 0 ||
      ::listen(listener_.get(), SOMAXCONN) != 0) {
    core::throw_errno("serving a store");
  }
  length = sizeof(address);
  ::getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&address), &length);
  address_.assign(address.sun_path + 1, length - offsetof(sockaddr_un, sun_path) - 1);
  thread_ = core::start_thread("local-store", [this](std::stop_token stop) { serve(stop); });
}

LocalStoreServer::~LocalStoreServer() {
  thread_.request_stop();
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(wake_.get(), &one, sizeof(one));
  thread_.join();
}

void LocalStoreServer::serve(const std::stop_token& stop) {
  std::vector<core::Fd> clients;
  while (!stop.stop_requested()) {
    std::vector<pollfd> waits = {{wake_.get(), POLLIN, 0}, {listener_.get(), POLLIN, 0}};
    for (const core::Fd& client : clients) waits.push_back({client.get(), POLLIN, 0});
    if (::poll(waits.data(), waits.size(), -1) < 0) continue;  // a signal
    for (std::size_t i = 0; i < clients.size(); ++i) {
      if (waits[i + 2].revents != 0 && !answer(clients[i].get())) clients[i] = core::Fd();
    }
    std::erase_if(clients, [](const core::Fd& client) { return !client; });
    if ((waits[1].revents & POLLIN) == 0) continue;
    core::Fd client(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (client && same_user(client.get())) clients.push_back(std::move(client));
  }
}

bool LocalStoreServer::answer(int client) {
  std::array<char, kPacketBytes> bytes;
  const ssize_t length = ::recv(client, bytes.data(), bytes.size(), MSG_TRUNC | MSG_DONTWAIT);
  if (length < 0) return errno == EAGAIN || errno == EINTR;
  if (length == 0 || static_cast<std::size_t>(length) > bytes.size()) return false;
  const auto request = parse({bytes.data(), static_cast<std::size_t>(length)});
  if (!request) return false;
  std::string reply(1, kYes);
  const auto known = values_.find(request->key);
  if (request->verb == kSet) {
    values_.insert_or_assign(std::string(request->key), std::string(request->value));
  } else if (request->verb == kGet) {
    known != values_.end() ? reply += known->second : reply = kNo;
  } else if (request->verb == kAdd) {
    const auto before = known != values_.end() ? number(known->second) : 0;
    const auto delta = number(request->value);
    if (!before || !delta) return false;
    const std::string sum = std::to_string(*before + *delta);
    values_.insert_or_assign(std::string(request->key), sum);
    reply += sum;
  } else {
    return false;
  }
  return ::send(client, reply.data(), reply.size(), MSG_NOSIGNAL | MSG_DONTWAIT) ==
         static_cast<ssize_t>(reply.size());
}

LocalStore::LocalStore(const std::string& name) : socket_(new_socket()) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (name.empty() || name.size() > sizeof(address.sun_path) - 1) {
    throw core::RunError(fmt::format("\"{}\" is no address of a local store", name));
  }
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  if (::connect(socket_.get(), reinterpret_cast<sockaddr*>(&address), length) != 0) {
    core::throw_errno(fmt::format("connecting to the local store at \"{}\"", name));
  }
}

std::string LocalStore::ask(char verb, std::string_view key, std::string_view value) {
  if (key.size() + value.size() > kPacketBytes - 4000) {
    throw std::invalid_argument(fmt::format("store: {} bytes under one key, at most 60,000 fit",
                                            key.size() + value.size()));
  }
  std::string packet(1, verb);
  const auto key_bytes = static_cast<std::uint32_t>(key.size());
  packet.append(reinterpret_cast<const char*>(&key_bytes), sizeof(key_bytes));
  packet.append(key).append(value);
  std::array<char, kPacketBytes> reply;
  const std::lock_guard lock(mutex_);
  const bool sent = ::send(socket_.get(), packet.data(), packet.size(), MSG_NOSIGNAL) ==
                    static_cast<ssize_t>(packet.size());
  pollfd wait = {socket_.get(), POLLIN, 0};
  // The server answers at once, whatever it is asked: five seconds of silence mean that it is gone.
  const core::Deadline patience(core::Seconds(5));
  while (sent && ::poll(&wait, 1, 100) <= 0 && !patience.passed()) {
  }
  const ssize_t length =
      sent ? ::recv(socket_.get(), reply.data(), reply.size(), MSG_DONTWAIT) : -1;
  if (length <= 0) {
    throw core::RunError(fmt::format(
        "the local store went away while {} was asked for: the process that serves it ended", key));
  }
  return {reply.data(), static_cast<std::size_t>(length)};
}

void LocalStore::set(std::string_view key, std::string_view value) { ask(kSet, key, value); }

std::string LocalStore::get(std::string_view key, const core::Deadline& deadline) {
  for (;;) {
    const std::string reply = ask(kGet, key, "");
    if (reply[0] == kYes) return reply.substr(1);
    if (deadline.passed()) {
      throw core::PeerError(-1, fmt::format("nobody set {} in the store within {:.1f} s", key,
                                            deadline.length().count()));
    }
    ::poll(nullptr, 0, 2);  // asked again: a rank's start takes longer than that
  }
}

std::int64_t LocalStore::add(std::string_view key, std::int64_t delta) {
  const std::string reply = ask(kAdd, key, std::to_string(delta));
  const auto sum = number(std::string_view(reply).substr(1));
  if (!sum) throw core::RunError(fmt::format("store: {} holds no number", key));
  return *sum;
}

}  // namespace tutti::launch
