// What ranks of one host tell each other over their AF_UNIX connections: rare, small, checked.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

#include "core/clock.h"
#include "core/fd.h"

namespace tutti::comm {

enum class MessageKind : std::uint16_t {
  Hello = 1,  // who I am; start time of my process in `key`
  Segment,    // a segment of my arena: its number, bytes, memfd
  Group,      // a new group: its name, key, ranks in `number`, bytes of control memory, memfd
  Bye,        // I leave in order
  Refuse,     // you are not of this run; why in `text`
};

/// One packet (SOCK_SEQPACKET), perhaps with a descriptor beside it.
struct Message {
  std::uint32_t magic = kMagic;
  std::uint16_t version = kVersion;
  MessageKind kind = MessageKind::Hello;
  std::uint32_t rank = 0;  // of the sender, in the world
  std::uint32_t number = 0;
  std::uint64_t run = 0;  // hash of the run's id
  std::uint64_t bytes = 0;
  std::uint64_t key = 0;
  char text[88] = {};  // ends with a zero

  static constexpr std::uint32_t kMagic = 0x74757474;  // "tutt"
  static constexpr std::uint16_t kVersion = 1;
  void set_text(std::string_view what);
};
static_assert(sizeof(Message) == 128 && std::is_trivially_copyable_v<Message>);

/// The message in a packet; empty unless length, magic, version, kind, rank and text are in order.
/// `ranks`: of the world.
std::optional<Message> parse_message(std::span<const std::byte> packet, int ranks);

/// Sends it, waiting for room until the deadline. False if the other side is gone or never made
/// room. `fd` >= 0 travels with it.
bool send_message(int socket, const Message& message, int fd, const core::Deadline& deadline);

/// What lies in a socket.
struct Received {
  enum class What { Nothing, Message, Garbage, Closed };
  What what = What::Nothing;
  Message message;
  core::Fd fd;
};

/// Takes the next packet without waiting.
Received receive_message(int socket, int ranks);

/// 64-bit FNV-1a: names and run ids in messages and keys.
std::uint64_t text_hash(std::string_view text, std::uint64_t seed = 0xcbf29ce484222325u);

}  // namespace tutti::comm
