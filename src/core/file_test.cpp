// Files written whole or not at all; refused writes say why, with numbers.
#include "core/file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <csignal>
#include <cstdlib>

#include "core/error.h"
#include "core/temporary_folder.h"

namespace tutti::core {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

class FolderOfFiles : public testing::Test {
 protected:
  [[nodiscard]] std::size_t num_files() const {
    return static_cast<std::size_t>(
        std::distance(fs::directory_iterator(folder_), fs::directory_iterator()));
  }
  TemporaryFolder temporary_{"file"};
  fs::path folder_ = temporary_.path();
};

using File = FolderOfFiles;
using AtomicWrite = FolderOfFiles;
using Mapped = FolderOfFiles;
using Lines = FolderOfFiles;

/// No file of this process grows beyond `bytes` while this lives.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) {
    old_handler_ = std::signal(SIGXFSZ, SIG_IGN);  // so that write() fails instead of killing us
    ::getrlimit(RLIMIT_FSIZE, &old_);
    rlimit limit = old_;
    limit.rlim_cur = bytes;
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() {
    ::setrlimit(RLIMIT_FSIZE, &old_);
    std::signal(SIGXFSZ, old_handler_);
  }

 private:
  rlimit old_{};
  void (*old_handler_)(int) = nullptr;
};

TEST_F(File, ReadsBackEveryByte) {
  const std::string content("a\0b\n\xff", 5);
  write_file_atomically(folder_ / "x", content);
  EXPECT_EQ(read_file(folder_ / "x"), content);
  write_file_atomically(folder_ / "x", "");
  EXPECT_EQ(read_file(folder_ / "x"), "");
  const std::string large(300'001, 'q');  // more than one buffer
  write_file_atomically(folder_ / "x", large);
  EXPECT_EQ(read_file(folder_ / "x"), large);
}

TEST_F(File, ReadsFilesThatClaimNoSize) {
  EXPECT_THAT(read_file("/proc/self/stat"), HasSubstr("("));
}

TEST_F(File, ErrorsNameThePathAndTheReason) {
  EXPECT_THAT([&] { read_file(folder_ / "none"); },
              ThrowsMessage<RunError>(AllOf(HasSubstr("none"), HasSubstr("No such file"))));
  EXPECT_THAT([&] { read_file(folder_); },
              ThrowsMessage<RunError>(HasSubstr("is a folder where a file is expected")));
  EXPECT_THAT([&] { write_file_atomically(folder_ / "no" / "x", "a"); },
              ThrowsMessage<RunError>(HasSubstr("No such file")));
  EXPECT_THAT([&] { sync_path(folder_ / "none"); }, ThrowsMessage<RunError>(HasSubstr("none")));
}

TEST_F(AtomicWrite, KeepsTheOldContentWhenTheDiskRefusesTheNew) {
  write_file_atomically(folder_ / "x", "old");
  {
    const FileSizeLimit limit(1000);
    EXPECT_THAT([&] { write_file_atomically(folder_ / "x", std::string(5000, 'n')); },
                ThrowsMessage<RunError>(AllOf(HasSubstr("File too large"), HasSubstr("3.9 KiB"))));
  }
  EXPECT_EQ(read_file(folder_ / "x"), "old");
  EXPECT_EQ(num_files(), 1U) << "the temporary file is gone";
}

TEST_F(AtomicWrite, SaysHowMuchIsFreeOnAFullDisk) {
  if (::mount("tmpfs", folder_.c_str(), "tmpfs", 0, "size=64k") != 0) {
    GTEST_SKIP() << "needs the right to mount a small tmpfs";
  }
  write_file_atomically(folder_ / "x", "old");
  EXPECT_THAT(
      [&] { write_file_atomically(folder_ / "x", std::string(100'000, 'n')); },
      ThrowsMessage<RunError>(AllOf(HasSubstr("No space left"), HasSubstr("are free there"))));
  EXPECT_EQ(read_file(folder_ / "x"), "old");
  EXPECT_EQ(num_files(), 1U);
  ::umount(folder_.c_str());
}

TEST_F(AtomicWrite, LeavesRightsToTheUsersMask) {
  const mode_t old = ::umask(027);
  write_file_atomically(folder_ / "x", "a");
  ::umask(old);
  struct stat status {};
  ASSERT_EQ(::stat((folder_ / "x").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777U, 0640U);
}

TEST_F(Mapped, ShowsTheBytesAndMoves) {
  write_file_atomically(folder_ / "x", "abc");
  write_file_atomically(folder_ / "empty", "");
  MappedFile file(folder_ / "x");
  MappedFile other(folder_ / "empty");
  EXPECT_TRUE(other.bytes().empty());
  other = std::move(file);
  ASSERT_EQ(other.bytes().size(), 3U);
  EXPECT_EQ(other.bytes()[2], std::byte{'c'});
  EXPECT_THROW(MappedFile{folder_}, RunError);
}

TEST_F(Lines, AppendToWhatIsThere) {
  { LineFile(folder_ / "x").write("one"); }
  LineFile file(folder_ / "x");
  file.write("two");
  file.write("");
  EXPECT_EQ(read_file(folder_ / "x"), "one\ntwo\n\n");
}

}  // namespace
}  // namespace tutti::core
