// Packets with descriptors; nothing from a packet is used before it is checked.
#include "comm/message.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

namespace tutti::comm {

void Message::set_text(std::string_view what) {
  const std::size_t length = std::min(what.size(), sizeof(text) - 1);
  std::memcpy(text, what.data(), length);
  text[length] = '\0';
}

std::optional<Message> parse_message(std::span<const std::byte> packet, int ranks) {
  Message message;
  if (packet.size() != sizeof(message)) return std::nullopt;
  std::memcpy(&message, packet.data(), sizeof(message));
  const auto kind = static_cast<std::uint16_t>(message.kind);
  const bool known = kind >= static_cast<std::uint16_t>(MessageKind::Hello) &&
                     kind <= static_cast<std::uint16_t>(MessageKind::Refuse);
  if (message.magic != Message::kMagic || message.version != Message::kVersion || !known ||
      message.rank >= static_cast<std::uint32_t>(ranks) ||
      std::memchr(message.text, '\0', sizeof(message.text)) == nullptr) {
    return std::nullopt;
  }
  return message;
}

bool send_message(int socket, const Message& message, int fd, const core::Deadline& deadline) {
  iovec data = {const_cast<Message*>(&message), sizeof(message)};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control = {};
  msghdr packet = {};
  packet.msg_iov = &data;
  packet.msg_iovlen = 1;
  if (fd >= 0) {
    packet.msg_control = control.data();
    packet.msg_controllen = control.size();
    cmsghdr* rights = CMSG_FIRSTHDR(&packet);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(rights), &fd, sizeof(int));
  }
  while (::sendmsg(socket, &packet, MSG_NOSIGNAL | MSG_DONTWAIT) < 0) {
    if (errno == EINTR) continue;
    // A user may have no more descriptors under way than a process may have open (ETOOMANYREFS);
    // that ends when others read theirs, which no poll tells.
    const bool too_many = errno == ETOOMANYREFS;
    if ((errno != EAGAIN && errno != EWOULDBLOCK && !too_many) || deadline.passed()) return false;
    pollfd room = {socket, static_cast<short>(too_many ? 0 : POLLOUT), 0};
    ::poll(&room, 1, too_many ? 1 : 20);
  }
  return true;
}

Received receive_message(int socket, int ranks) {
  std::array<std::byte, sizeof(Message) + 1> bytes;  // one more, so that too long is seen
  alignas(cmsghdr) std::array<char, CMSG_SPACE(4 * sizeof(int))> control = {};
  iovec data = {bytes.data(), bytes.size()};
  msghdr packet = {};
  packet.msg_iov = &data;
  packet.msg_iovlen = 1;
  packet.msg_control = control.data();
  packet.msg_controllen = control.size();
  ssize_t length = 0;
  do {
    length = ::recvmsg(socket, &packet, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    // A peer that closes with unread packets of ours resets the connection: the error comes once,
    // and before what the peer had sent. Its last words count.
  } while (length < 0 && (errno == EINTR || errno == ECONNRESET));

  Received received;
  if (length < 0) {
    const bool empty = errno == EAGAIN || errno == EWOULDBLOCK;
    received.what = empty ? Received::What::Nothing : Received::What::Closed;
    return received;
  }
  for (cmsghdr* c = CMSG_FIRSTHDR(&packet); c != nullptr; c = CMSG_NXTHDR(&packet, c)) {
    if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {  // every one is owned, so that none leaks
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(int));
      received.fd = core::Fd(fd);
    }
  }
  if (length == 0) {
    received.what = Received::What::Closed;
    return received;
  }
  const auto message =
      parse_message(std::span(bytes).first(static_cast<std::size_t>(length)), ranks);
  received.what = message ? Received::What::Message : Received::What::Garbage;
  if (message) received.message = *message;
  return received;
}

std::uint64_t text_hash(std::string_view text, std::uint64_t seed) {
  for (const char c : text) seed = (seed ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return seed;
}

}  // namespace tutti::comm
