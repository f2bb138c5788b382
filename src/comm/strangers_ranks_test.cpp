// Wire-up among strangers: visitors that talk nonsense, cards that are none, numbers taken twice.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <array>
#include <cstddef>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

#include "comm/card.h"
#include "comm/message.h"
#include "comm/testing.h"
#include "comm/testing_expect.h"
#include "core/error.h"

namespace tutti::comm {
namespace {

using testing::everybody;
using ::testing::HasSubstr;
using testing::SharedStore;

WireUpOptions of_two(int rank, const std::shared_ptr<MappingCache>& mappings) {
  WireUpOptions options;
  options.rank = rank;
  options.ranks = 2;
  options.wire_up_timeout_s = 20;
  options.comm.table = R"({"rows":[]})";
  options.mappings = mappings;
  return options;
}

core::Fd visit(const Card& card) {
  core::Fd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, card.address.data(), card.address.size());
  const auto length =
      static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + card.address.size());
  EXPECT_EQ(::connect(socket.get(), reinterpret_cast<sockaddr*>(&address), length), 0);
  return socket;
}

/// What the other side answers, or that it closes, within five seconds.
Received answer(const core::Fd& socket) {
  pollfd wait = {socket.get(), POLLIN, 0};
  ::poll(&wait, 1, 5000);
  return receive_message(socket.get(), 2);
}

TEST(Strangers, AreShownTheDoorAndTheRanksMeetAllTheSame) {
  SharedStore store;
  const auto mappings = std::make_shared<MappingCache>();
  std::vector<std::string> errors(2);
  std::vector<std::jthread> ranks;
  const auto start = [&](int rank) {
    ranks.emplace_back([&, rank] {
      try {
        World world = wire_up(&store, of_two(rank, mappings));
        everybody(world).barrier("met").wait();
      } catch (const std::exception& error) {
        errors[static_cast<std::size_t>(rank)] = error.what();
      }
    });
  };
  start(0);
  const auto card =
      Card::parse(store.get("tutti//comm/card/0/0", core::Deadline(core::Seconds(10))));
  ASSERT_TRUE(card.has_value());
  std::mt19937 random(15);
  std::vector<core::Fd> visitors;
  for (int i = 0; i < 150; ++i) {
    visitors.push_back(visit(*card));
    if (i % 5 == 0) continue;  // says nothing and stays
    std::array<std::byte, sizeof(Message)> noise;
    for (std::byte& b : noise) b = static_cast<std::byte>(random());
    if (i % 2 == 0) {  // a hello but for some bytes
      Message hello;
      hello.rank = 1;
      hello.run = random();
      std::memcpy(noise.data(), &hello, sizeof(hello));
      noise[random() % 16] ^= static_cast<std::byte>(1 + random() % 255);
    }
    ::send(visitors.back().get(), noise.data(), 1 + random() % noise.size(), MSG_NOSIGNAL);
    if (i % 3 == 0) visitors.back() = core::Fd();
  }
  Message hello;
  hello.rank = 1;
  hello.run = text_hash("another run");
  const core::Fd other = visit(*card), twice = visit(*card);
  ASSERT_TRUE(send_message(other.get(), hello, -1, core::Deadline(core::Seconds(5))));
  hello.rank = 0;  // the listener's own number
  hello.run = text_hash("");
  ASSERT_TRUE(send_message(twice.get(), hello, -1, core::Deadline(core::Seconds(5))));
  start(1);  // nobody is received before all cards are there
  Received refusal = answer(other);
  EXPECT_EQ(refusal.message.kind, MessageKind::Refuse);
  EXPECT_STREQ(refusal.message.text, "it belongs to another run");
  refusal = answer(twice);
  EXPECT_EQ(refusal.message.kind, MessageKind::Refuse);
  EXPECT_STREQ(refusal.message.text, "a rank of that number is here already");
  ranks.clear();
  testing::expect_no_errors(errors);
}

TEST(Strangers, WithCardsThatAreNoneAreNamed) {
  for (const char* text : {"", "tutti-9\na\nb\nc\nd\n", "tutti-1\na\nb\n", "\xff\xfe\x00"}) {
    SharedStore store;
    store.set("tutti//comm/card/0/1", text);
    std::string error;
    try {
      wire_up(&store, of_two(0, nullptr));
    } catch (const core::RunError& e) {
      error = e.what();
    }
    EXPECT_THAT(error, HasSubstr("rank 1 left no readable card")) << text;
  }
}

TEST(Strangers, WhoseCardLeadsNowhereAreNamed) {
  SharedStore store;
  // The card of this host, with an address that nobody listens on.
  {
    WireUpOptions options = of_two(0, nullptr);
    options.wire_up_timeout_s = 0.1;
    EXPECT_THROW(wire_up(&store, options), core::PeerError);
  }
  std::string error;
  try {
    wire_up(&store, of_two(1, nullptr));
  } catch (const core::PeerError& e) {
    error = e.what();
    EXPECT_EQ(e.rank(), 0);
  }
  EXPECT_THAT(error, HasSubstr("rank 0 came but is gone again"));
}

}  // namespace
}  // namespace tutti::comm
