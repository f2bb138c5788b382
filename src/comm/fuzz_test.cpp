// What comes from outside, damaged on purpose: packets, cards, descriptors beside packets, places
// in a peer's memory. Fixed seeds; nothing may crash, leak a descriptor or pass a number unchecked.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <random>
#include <string>
#include <thread>

#include "comm/card.h"
#include "comm/message.h"
#include "comm/peers.h"
#include "comm/testing.h"
#include "core/error.h"

namespace tutti::comm {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;

constexpr std::uint64_t kRun = 77;

std::ptrdiff_t open_descriptors() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {});
}

struct Pair {
  core::Fd a, b;
};
Pair connected() {
  int ends[2] = {-1, -1};
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
  return {core::Fd(ends[0]), core::Fd(ends[1])};
}

using Packet = std::array<std::byte, sizeof(Message)>;
Packet packet_of(const Message& message) {
  Packet bytes;
  std::memcpy(bytes.data(), &message, sizeof(message));
  return bytes;
}

/// A packet with any number of descriptors beside it.
void send_raw(int socket, std::span<const std::byte> bytes, const std::vector<int>& fds) {
  iovec data = {const_cast<std::byte*>(bytes.data()), bytes.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(8 * sizeof(int))> control = {};
  msghdr packet = {};
  packet.msg_iov = &data;
  packet.msg_iovlen = 1;
  if (!fds.empty()) {
    packet.msg_control = control.data();
    packet.msg_controllen = CMSG_SPACE(fds.size() * sizeof(int));
    cmsghdr* rights = CMSG_FIRSTHDR(&packet);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(fds.size() * sizeof(int));
    std::memcpy(CMSG_DATA(rights), fds.data(), fds.size() * sizeof(int));
  }
  ::sendmsg(socket, &packet, MSG_NOSIGNAL | MSG_DONTWAIT);
}

TEST(FuzzedCards, AreReadOrRefusedButNeverLongerThanAnAddress) {
  std::mt19937 random(11);
  const std::string good = Card{"boot-id", "net:[4026531840]", "0001f", "host"}.text();
  int accepted = 0, refused = 0;
  for (int i = 0; i < 20000; ++i) {
    std::string text = good;
    if (i % 5 == 0) {  // nothing of the good one
      text.resize(random() % 300);
      for (char& c : text) c = static_cast<char>(random());
    }
    for (unsigned k = random() % 4; k > 0 && !text.empty(); --k) {
      const std::size_t at = random() % text.size();
      switch (random() % 4) {
        case 0:
          text[at] = static_cast<char>(random());
          break;
        case 1:
          text.erase(at, 1 + random() % 9);
          break;
        case 2:
          text.insert(at, std::string(random() % 200, '\n'));
          break;
        default:
          text.insert(at, std::string(random() % 200, 'x'));
          break;
      }
    }
    const auto card = Card::parse(text);
    ++(card ? accepted : refused);
    if (card) {
      EXPECT_TRUE(!card->address.empty() && card->address.size() <= 107);
    }
  }
  EXPECT_GT(accepted, 1000);
  EXPECT_GT(refused, 1000);
}

TEST(FuzzedPackets, OverASocketGiveAMessageOrGarbageAndLeakNoDescriptor) {
  std::mt19937 random(12);
  const auto before = open_descriptors();
  {
    const Pair pair = connected();
    const core::Fd memory = create_shared_memory("test", 4096);
    Message message;
    message.kind = MessageKind::Group;
    message.rank = 3;
    const Packet good = packet_of(message);
    int messages = 0;
    for (int i = 0; i < 5000; ++i) {
      std::vector<std::byte> bytes(good.begin(), good.end());
      for (unsigned k = random() % 3; k > 0; --k) {
        bytes[random() % bytes.size()] = static_cast<std::byte>(random());
      }
      if (random() % 5 == 0) bytes.resize(1 + random() % 300);
      const std::vector<int> fds(random() % 7, memory.get());  // more than anybody makes room for
      send_raw(pair.b.get(), bytes, fds);
      const Received received = receive_message(pair.a.get(), 4);
      ASSERT_TRUE(received.what == Received::What::Message ||
                  received.what == Received::What::Garbage);
      if (received.what == Received::What::Garbage) continue;
      ++messages;
      ASSERT_LT(received.message.rank, 4U);
      ASSERT_LT(std::strlen(received.message.text), sizeof(received.message.text));
      ASSERT_EQ(static_cast<bool>(received.fd), !fds.empty());
    }
    EXPECT_GT(messages, 500);
  }
  EXPECT_EQ(open_descriptors(), before);
}

// Another rank that has gone mad: what it sends makes it lost, by name, and never harms the reader.
TEST(FuzzedPeers, AreLostWithAReasonAndTheirMemoryIsReachedOnlyWithinItsBounds) {
  std::mt19937 random(13);
  const auto before = open_descriptors();
  int lost = 0, reached = 0;
  for (int round = 0; round < 400; ++round) {
    Pair pair = connected();
    Peers peers(0, 2, kRun, std::make_shared<MappingCache>());
    peers.connect(1, {std::move(pair.a), 0, {}});
    const core::Fd sealed = create_shared_memory("test", 8192);
    const core::Fd unsealed(::memfd_create("test", MFD_CLOEXEC));
    const core::Fd nothing(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    const int kinds[] = {sealed.get(), sealed.get(), unsealed.get(), nothing.get()};
    std::uint32_t segments = 0;
    for (int i = 0; i < 6; ++i) {
      Message message;
      message.rank = 1;
      message.run = kRun;
      message.kind = i < 2 ? MessageKind::Segment : static_cast<MessageKind>(1 + random() % 5);
      message.number = segments++;
      message.bytes = random() % 8 == 0 ? random() : 8192;
      message.key = random() % 4;
      Packet bytes = packet_of(message);
      if (random() % 6 == 0) bytes[random() % 40] ^= static_cast<std::byte>(1 + random() % 255);
      std::vector<int> fds;
      if (random() % 8 != 0) fds.push_back(kinds[random() % 4]);
      send_raw(pair.b.get(), bytes, fds);
      peers.look(0);
      if (peers.dead(1)) break;
    }
    if (peers.dead(1)) {
      ++lost;
      EXPECT_THAT(peers.death(1), AnyOf(HasSubstr("no message of this run"),
                                        HasSubstr("out of turn"), HasSubstr("not a sealed memfd")));
    }
    for (int i = 0; i < 20; ++i) {
      const auto segment = static_cast<std::uint16_t>(random() % 8 == 0 ? random() : random() % 3);
      const std::uint64_t wild = std::uint64_t{random()} << 32 | random();
      const std::uint64_t offset = random() % 4 != 0 ? random() % 9000 : wild;
      const std::uint64_t bytes = random() % 4 != 0 ? random() % 9000 : ~wild;
      try {
        const std::byte* at = peers.address(1, segment, offset, bytes);
        ++reached;
        ASSERT_LE(offset + bytes, 8192U);
        const bool zero = bytes == 0 || at[bytes - 1] == std::byte{0};
        EXPECT_TRUE(zero) << "mapped to the last byte";
      } catch (const core::PeerError& error) {
        EXPECT_EQ(error.rank(), 1);
        EXPECT_THAT(error.what(), HasSubstr("rank 1 named bytes"));
      }
    }
    try {
      peers.take_group(1, random() % 4, 8192);
    } catch (const core::PeerError& error) {
      EXPECT_EQ(error.rank(), 1);
      EXPECT_THAT(error.what(), HasSubstr("from rank 1"));
    }
  }
  EXPECT_GT(lost, 100);
  EXPECT_GT(reached, 100);
  EXPECT_EQ(open_descriptors(), before);
}

TEST(MappingCache, MapsAnewWhatIsAskedForInFullAfterAPart) {
  MappingCache cache;
  const core::Fd fd = create_shared_memory("test", 8192);
  const auto part = cache.map(fd.get(), 4096);
  EXPECT_EQ(part->bytes(), 4096U);
  EXPECT_EQ(cache.map(fd.get(), 8192)->bytes(), 8192U);
}

// The kernel counts descriptors under way by user; root is exempt, so the test is another user.
TEST(Packets, WaitWhileTheUserHasTooManyDescriptorsUnderWay) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root to become a user who has nothing under way";
  testing::Process process([] {
    const rlimit few = {24, 24};
    if (::setrlimit(RLIMIT_NOFILE, &few) != 0 || ::setuid(54321) != 0) {
      throw std::runtime_error("could not become another user");
    }
    int ends[2] = {-1, -1};
    if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
      throw std::runtime_error("no sockets");
    }
    const core::Fd a(ends[0]), b(ends[1]), memory = create_shared_memory("test", 4096);
    constexpr int kMessages = 60;
    std::jthread reader([&] {
      ::usleep(100000);  // long enough that the limit is met first
      for (int got = 0; got < kMessages;) {
        const Received received = receive_message(b.get(), 2);
        if (received.what == Received::What::Nothing) ::usleep(100);
        if (received.what == Received::What::Message) ++got;
        if (received.what == Received::What::Closed) return;
      }
    });
    for (int i = 0; i < kMessages; ++i) {
      if (!send_message(a.get(), {}, memory.get(), core::Deadline(core::Seconds(5)))) {
        ::shutdown(a.get(), SHUT_RDWR);
        throw std::runtime_error("message " + std::to_string(i) + " was dropped");
      }
    }
  });
  EXPECT_EQ(process.result(core::Deadline(core::Seconds(20))), "");
}

}  // namespace
}  // namespace tutti::comm
