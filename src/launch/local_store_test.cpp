// The store over AF_UNIX keeps what it is given and never waits for ever.
#include "launch/local_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <thread>
#include <vector>

#include "core/error.h"

namespace tutti::launch {
namespace {

core::Deadline within(double seconds) { return core::Deadline(core::Seconds(seconds)); }

TEST(LocalStore, GivesBackWhatAnotherClientSetWithEveryByte) {
  const LocalStoreServer server;
  LocalStore a(server.address()), b(server.address());
  const std::string value("zero \0 and newline \n", 20);
  a.set("key", value);
  EXPECT_EQ(b.get("key", within(1)), value);
  a.set("key", "");
  EXPECT_EQ(b.get("key", within(1)), "");
}

TEST(LocalStore, WaitsForAKeyThatComesLater) {
  const LocalStoreServer server;
  LocalStore a(server.address());
  std::jthread later([&] { LocalStore(server.address()).set("late", "here"); });
  EXPECT_EQ(a.get("late", within(10)), "here");
}

TEST(LocalStore, NamesTheKeyWhenTheDeadlinePasses) {
  const LocalStoreServer server;
  LocalStore a(server.address());
  try {
    a.get("tutti/card/7", within(0.02));
    FAIL() << "a key that nobody set was found";
  } catch (const core::PeerError& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("tutti/card/7"));
  }
}

TEST(LocalStore, CountsEveryAddOnce) {
  const LocalStoreServer server;
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&] {
        LocalStore store(server.address());
        for (int i = 0; i < 100; ++i) store.add("n", 2);
      });
    }
  }
  EXPECT_EQ(LocalStore(server.address()).add("n", -1), 799);
}

TEST(LocalStore, SaysThatTheServerIsGone) {
  std::optional<LocalStoreServer> server(std::in_place);
  const std::string address = server->address();
  LocalStore store(address);
  server.reset();
  EXPECT_THROW(store.set("a", "b"), core::RunError);
  EXPECT_THROW(LocalStore{address}, core::RunError);
  EXPECT_THROW(LocalStore{""}, core::RunError);
}

}  // namespace
}  // namespace tutti::launch
