// What a log line looks like, where it goes, and what the environment decides.
#include "core/log.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "core/error.h"
#include "core/fd.h"

namespace tutti::core {
namespace {

using testing::HasSubstr;
using testing::MatchesRegex;
using testing::Not;

class Log : public testing::Test {
 protected:
  void SetUp() override {
    ::setenv("TERM", "xterm", 1);
    ::unsetenv("COLORTERM");
    ::unsetenv("NO_COLOR");
    ::unsetenv("TUTTI_LOG");
  }
  void TearDown() override {
    SetUp();
    set_up_log({});
  }

  static std::string stderr_of(const auto& body) {
    testing::internal::CaptureStderr();
    body();
    return testing::internal::GetCapturedStderr();
  }

  /// stderr as a terminal shows it: what arrives at the master side of a pseudo-terminal.
  static std::string terminal_of(const auto& body) {
    const Fd master(::posix_openpt(O_RDWR | O_NOCTTY));
    if (!master || ::grantpt(master.get()) != 0 || ::unlockpt(master.get()) != 0)
      return "no terminal";
    const Fd terminal(::open(::ptsname(master.get()), O_RDWR | O_NOCTTY));
    const Fd saved(::dup(STDERR_FILENO));
    ::dup2(terminal.get(), STDERR_FILENO);
    body();
    ::dup2(saved.get(), STDERR_FILENO);
    std::string shown;
    pollfd readable = {master.get(), POLLIN, 0};
    while (shown.find('\n') == std::string::npos && ::poll(&readable, 1, 5000) == 1) {
      char buffer[1024];
      const auto length = ::read(master.get(), buffer, sizeof buffer);
      if (length <= 0) break;
      shown.append(buffer, static_cast<std::size_t>(length));
    }
    return shown;
  }
};

TEST_F(Log, AUserReadsTheMessageAndNoMore) {
  EXPECT_EQ(stderr_of([] {
              set_up_log({});
              log::info("{} ranks", 2);
              log::warn("slow");
              log::error("gone");
              log::debug("not shown");
            }),
            "tutti: 2 ranks\ntutti: warning: slow\ntutti: error: gone\n");
}

TEST_F(Log, EveryRankButTheFirstSaysWhichItIs) {
  const auto line_of = [](int rank) {
    return stderr_of([&] {
      set_up_log({.rank = rank});
      log::info("x");
    });
  };
  EXPECT_EQ(line_of(-1), "tutti: x\n");
  EXPECT_EQ(line_of(0), "tutti: x\n");
  EXPECT_EQ(line_of(1), "rank 1: x\n");
}

TEST_F(Log, TheEnvironmentSetsTheLevel) {
  ::setenv("TUTTI_LOG", "debug", 1);
  EXPECT_EQ(stderr_of([] {
              set_up_log({});
              log::debug("x");
            }),
            "tutti: debug: x\n");
  ::setenv("TUTTI_LOG", "error", 1);
  EXPECT_EQ(stderr_of([] {
              set_up_log({});
              log::warn("x");
            }),
            "");
}

TEST_F(Log, AnUnknownLevelIsTheUsersMistakeWithItsCure) {
  ::setenv("TUTTI_LOG", "debgu", 1);
  try {
    set_up_log({});
    FAIL() << "nothing was thrown";
  } catch (const ConfigError& error) {
    EXPECT_STREQ(error.what(),
                 "TUTTI_LOG = debgu is no log level (did you mean debug?). Set it to one of trace, "
                 "debug, info, warn, "
                 "error, or unset it.");
  }
}

TEST_F(Log, ColoursAppearOnATerminalOnly) {
  const auto warn = [] {
    set_up_log({});
    log::warn("slow");
  };
  EXPECT_THAT(terminal_of(warn), HasSubstr("\033["));
  EXPECT_THAT(stderr_of(warn), Not(HasSubstr("\033[")));
}

TEST_F(Log, NoColorIsRespected) {
  ::setenv("NO_COLOR", "1", 1);
  const std::string shown = terminal_of([] {
    set_up_log({});
    log::warn("slow");
  });
  EXPECT_THAT(shown, HasSubstr("tutti: warning: slow"));
  EXPECT_THAT(shown, Not(HasSubstr("\033[")));
}

TEST_F(Log, TheFileHasTimeAndLevelAtOnce) {
  const std::string path = testing::TempDir() + "log_test.txt";
  std::filesystem::remove(path);
  EXPECT_EQ(stderr_of([&] {
              set_up_log({.rank = 1, .console = false, .file = path});
              log::info("hello");
            }),
            "");
  std::ifstream file(path);  // the logger still lives: the line was flushed
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  EXPECT_THAT(text, MatchesRegex("[0-9-]+ [0-9:]+\\.[0-9]+ info hello\n"));
  std::filesystem::remove(path);
}

TEST_F(Log, ARecordIsInTheFileAtEveryLevelAndOnStderrOnlyForDevelopers) {
  for (const std::string level : {"error", "info", "debug"}) {
    SCOPED_TRACE(level);
    const std::string path = testing::TempDir() + "log_test.txt";
    std::filesystem::remove(path);
    ::setenv("TUTTI_LOG", level.c_str(), 1);
    EXPECT_EQ(stderr_of([&] {
                set_up_log({.file = path});
                log::record("100 % of {it}");
              }),
              level == "debug" ? "tutti: 100 % of {it}\n" : "");
    std::ifstream file(path);
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    EXPECT_THAT(text, MatchesRegex("[0-9-]+ [0-9:]+\\.[0-9]+ info 100 % of .it.\n"));
    std::filesystem::remove(path);
  }
}

TEST_F(Log, AFileThatCannotBeOpenedIsNamed) {
  try {
    set_up_log({.file = "/dev/null/log.txt"});
    FAIL() << "nothing was thrown";
  } catch (const RunError& error) {
    EXPECT_THAT(error.what(), HasSubstr("the log file /dev/null/log.txt cannot be opened"));
  }
}

}  // namespace
}  // namespace tutti::core
