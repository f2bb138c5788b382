// Where log lines go and how they look.
#include "core/log.h"

#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/stdout_color_sinks.h>

#include <array>
#include <cstdlib>
#include <memory>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/suggest.h"

namespace tutti::core {
namespace {

const std::vector<std::string> kLevels = {"trace", "debug", "info", "warn", "error"};

spdlog::level::level_enum level_from_environment() {
  const char* value = std::getenv("TUTTI_LOG");
  if (value == nullptr || *value == '\0') return spdlog::level::info;
  for (std::size_t i = 0; i < kLevels.size(); ++i) {
    if (kLevels[i] == value) return static_cast<spdlog::level::level_enum>(i);
  }
  const std::string near = nearest(value, kLevels);
  throw ConfigError(fmt::format(
      "TUTTI_LOG = {} is no log level{}. Set it to one of {}, or unset it.", value,
      near.empty() ? "" : fmt::format(" (did you mean {}?)", near), fmt::join(kLevels, ", ")));
}
static_assert(spdlog::level::trace == 0 && spdlog::level::err == 4, "kLevels has spdlog's order");

/// "%*": nothing for an info line, which is what people read all the time; else "warning: " and so
/// on.
class LevelWord : public spdlog::custom_flag_formatter {
 public:
  void format(const spdlog::details::log_msg& message, const std::tm&,
              spdlog::memory_buf_t& out) override {
    static constexpr std::array<std::string_view, 7> kWords = {
        "trace: ", "debug: ", "", "warning: ", "error: ", "error: ", ""};
    const std::string_view word = kWords.at(static_cast<std::size_t>(message.level));
    out.append(word.data(), word.data() + word.size());
  }
  [[nodiscard]] std::unique_ptr<custom_flag_formatter> clone() const override {
    return spdlog::details::make_unique<LevelWord>();
  }
};

spdlog::sink_ptr console_sink(int rank) {
  const char* no_color = std::getenv("NO_COLOR");
  const bool refused = no_color != nullptr && *no_color != '\0';  // no-color.org: set and not empty
  auto sink = std::make_shared<spdlog::sinks::stderr_color_sink_mt>(
      refused ? spdlog::color_mode::never : spdlog::color_mode::automatic);
  auto formatter = std::make_unique<spdlog::pattern_formatter>();
  const std::string who = rank > 0 ? fmt::format("rank {}: ", rank) : "tutti: ";
  formatter->add_flag<LevelWord>('*').set_pattern(who + "%^%*%$%v");
  sink->set_formatter(std::move(formatter));
  return sink;
}

spdlog::sink_ptr file_sink(const std::string& file) {
  try {
    auto sink = std::make_shared<spdlog::sinks::basic_file_sink_mt>(file);
    sink->set_pattern("%Y-%m-%d %H:%M:%S.%e %l %v");
    return sink;
  } catch (const spdlog::spdlog_ex& error) {
    throw RunError(fmt::format("the log file {} cannot be opened: {}", file, error.what()));
  }
}

const std::string kRecord = "record";  // the logger behind log::record

std::shared_ptr<spdlog::logger> make_logger(const std::string& name,
                                            const std::vector<spdlog::sink_ptr>& sinks) {
  auto logger = std::make_shared<spdlog::logger>(name, sinks.begin(), sinks.end());
  logger->flush_on(
      spdlog::level::trace);  // lines are rare, and a killed rank's last one matters most
  return logger;
}

}  // namespace

void set_up_log(const LogOptions& options) {
  const auto level = level_from_environment();
  std::vector<spdlog::sink_ptr> sinks, record_sinks;
  if (options.console) sinks.push_back(console_sink(options.rank));
  if (level <= spdlog::level::debug) record_sinks = sinks;
  if (!options.file.empty()) {
    sinks.push_back(file_sink(options.file));
    record_sinks.push_back(sinks.back());
  }
  auto logger = make_logger("tutti", sinks);
  logger->set_level(level);
  spdlog::drop(kRecord);
  spdlog::register_logger(make_logger(kRecord, record_sinks));
  spdlog::set_default_logger(std::move(logger));
}

void log::record(const std::string& text) {
  if (const auto logger = spdlog::get(kRecord)) logger->info(text);
}

}  // namespace tutti::core
