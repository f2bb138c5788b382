// Kills the writer at every system call that touches the disk, makes each of them fail, and fills
// the disk.
//
// This program defines write, fsync and rename itself, so that the ones in libc are not
// used: each counts, and the one that is due ends the process (as a power cut would) or fails with
// ENOSPC.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <string>
#include <vector>

#include "checkpoint/checkpoint_fixture.h"

namespace {

constexpr int kNever = -1;
constexpr int kKilled = 77;

int calls_left = kNever;  // before the one that is due
bool fails = false;       // it fails instead of ending the process
int num_calls = 0;

bool recording = false;
std::vector<std::string> record;  // "write PATH", "fsync PATH", "rename FROM"

std::string path_of(int fd) {
  char path[4096] = {};
  const std::string link = "/proc/self/fd/" + std::to_string(fd);
  return ::readlink(link.c_str(), path, sizeof path - 1) < 0 ? "?" : path;
}

/// True if this call must fail.
bool due(const std::string& call) {
  if (recording) record.push_back(call);
  ++num_calls;
  if (calls_left == kNever || calls_left-- > 0) return false;
  if (!fails) ::_exit(kKilled);
  calls_left = kNever;
  errno = ENOSPC;
  return true;
}

}  // namespace

extern "C" {
ssize_t write(int fd, const void* data, size_t bytes) {
  if (fd <= STDERR_FILENO) return ::syscall(SYS_write, fd, data, bytes);
  if (due("write " + path_of(fd))) return -1;
  // Short writes are allowed, so make them common: a crash then also falls into the middle of a
  // file.
  return ::syscall(SYS_write, fd, data, bytes < 256 ? bytes : 256);
}
int fsync(int fd) {
  return due("fsync " + path_of(fd)) ? -1 : static_cast<int>(::syscall(SYS_fsync, fd));
}
int rename(const char* from, const char* to) noexcept {
  if (due(std::string("rename ") + from)) return -1;
  return static_cast<int>(::syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0));
}
}

namespace tutti::checkpoint {
namespace {

namespace fs = std::filesystem;
using core::RunError;
using fixture::CheckpointFolder;
using fixture::expect_model;
using fixture::save;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

using Crash = CheckpointFolder;
using FullDisk = CheckpointFolder;

/// Saves step 3 (and prunes) in a child that ends at call `at`; true if it came to its end before
/// that.
bool save_in_child(const fs::path& folder, int at) {
  const pid_t child = ::fork();
  if (child == 0) {
    calls_left = at;
    save(folder, 3, 2);
    prune(folder, 2);
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && (WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == kKilled))
      << status;
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

TEST_F(Crash, AtAnyCallLeavesAWholeCheckpoint) {
  save(folder_, 1, 2);
  save(folder_, 2, 3);
  bool ended = false;
  bool new_one_seen = false;
  int at = 0;
  for (; !ended; ++at) {
    ASSERT_LT(at, 1000);
    SCOPED_TRACE(testing::Message() << "killed at call " << at);
    ended = save_in_child(folder_, at);
    const auto latest = latest_checkpoint(folder_);
    ASSERT_TRUE(latest.has_value());
    const bool is_new = *latest == folder_ / "step-3";
    expect_model(*latest, is_new ? 3 : 2);
    new_one_seen |= is_new && !ended;
    if (is_new) fs::remove_all(folder_ / "step-3");  // the next child starts from the same state
    if (!fs::exists(folder_ / "step-1")) save(folder_, 1, 2);
  }
  EXPECT_TRUE(new_one_seen) << "some call comes after the mark: it must not matter any more";
  EXPECT_GT(at, 20) << "the calls are counted";
}

TEST_F(Crash, WhileAStepIsReplacedLeavesAnOlderOne) {
  save(folder_, 2, 2);
  bool ended = false;
  for (int at = 0; !ended; ++at) {
    save(folder_, 3, 1);
    ended = save_in_child(folder_, at);
    const auto latest = latest_checkpoint(folder_);
    ASSERT_TRUE(latest.has_value());
    expect_model(*latest, *latest == folder_ / "step-3" ? 3 : 2);
  }
}

TEST_F(FullDisk, AtAnyCallIsARunErrorAndLeavesNothingBehind) {
  save(folder_, 2, 2);
  num_calls = 0;
  save(folder_, 3, 1);
  const int calls_of_a_save = num_calls;
  fs::remove_all(folder_ / "step-3");
  ASSERT_GT(calls_of_a_save, 5);
  for (int at = 0; at < calls_of_a_save; ++at) {
    SCOPED_TRACE(testing::Message() << "call " << at << " fails");
    calls_left = at;
    fails = true;
    EXPECT_THROW(save(folder_, 3, 1), RunError);
    EXPECT_EQ(calls_left, kNever) << "the call was made";
    calls_left = kNever;
    const fs::path temporary = temporary_folder(folder_, 3);
    EXPECT_TRUE(!fs::exists(temporary) || fs::is_empty(temporary));
    const auto latest = latest_checkpoint(folder_);
    ASSERT_TRUE(latest.has_value());
    expect_model(*latest, *latest == folder_ / "step-3" ? 3 : 2);
    fs::remove_all(folder_ / "step-3");
  }
}

TEST_F(FullDisk, IsToldInNumbersAndOldCheckpointsStay) {
  fs::create_directories(folder_);
  if (::mount("tmpfs", folder_.c_str(), "tmpfs", 0, "size=32k") != 0) {
    GTEST_SKIP() << "needs the right to mount a small tmpfs";
  }
  save(folder_, 2, 1);
  const std::vector<float> large(20'000);
  const OwnedPiece piece{"large", "F32", {20'000}, {0, 20'000}, std::as_bytes(std::span(large))};
  try {
    write_rank_file(temporary_folder(folder_, 3), 0, std::vector{piece});
    ADD_FAILURE() << "80 kB fit into 32";
  } catch (const RunError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("step-3.tmp/rank-0.safetensors"),
                                    HasSubstr("No space left"), HasSubstr("are free there")));
  }
  EXPECT_TRUE(fs::is_empty(temporary_folder(folder_, 3)))
      << "the part that was written takes the room, or another rank lost the folder it writes to";
  discard(folder_, 3);
  EXPECT_THAT(names(), ElementsAre("step-2"));
  expect_model(folder_ / "step-2", 2);
  ::umount(folder_.c_str());
}

/// Place of the last call in the record that is exactly this; -1 if there is none.
int place_of(const std::string& call) {
  for (int i = static_cast<int>(record.size()) - 1; i >= 0; --i) {
    if (record[static_cast<std::size_t>(i)] == call) return i;
  }
  return -1;
}

TEST_F(Crash, FindsEverythingSyncedBeforeTheNextNameVouchesForIt) {
  record.clear();
  recording = true;
  save(folder_, 3, 2);
  recording = false;
  const std::string parent = folder_.string();
  const std::string temporary = parent + "/step-3.tmp";
  const int published = place_of("rename " + temporary);
  for (const char* name : {"rank-0.safetensors", "rank-1.safetensors", "index.json"}) {
    const std::string file = temporary + "/" + name;
    EXPECT_GE(place_of("write " + file), 0) << name;
    EXPECT_LT(place_of("write " + file), place_of("fsync " + file)) << name;
    EXPECT_LT(place_of("fsync " + file), place_of("fsync " + temporary)) << name;
  }
  EXPECT_LT(place_of("fsync " + temporary), published);
  EXPECT_LT(published, place_of("fsync " + parent));
  const std::string mark = parent + "/step-3/done." + std::to_string(::getpid()) + ".tmp";
  EXPECT_LT(place_of("fsync " + parent), place_of("write " + mark));
  EXPECT_LT(place_of("write " + mark), place_of("fsync " + mark));
  EXPECT_LT(place_of("fsync " + mark), place_of("rename " + mark));
  EXPECT_LT(place_of("rename " + mark), place_of("fsync " + parent + "/step-3"));
}

}  // namespace
}  // namespace tutti::checkpoint
