// `tutti data prepare`: looks at every text first, then encodes what is good.
#include "data/prepare.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <system_error>

#include "core/error.h"
#include "core/file.h"
#include "core/units.h"
#include "data/token_file.h"
#include "data/tokenizer.h"

namespace tutti::data {
namespace {

namespace fs = std::filesystem;

/// Why this text cannot be a document; empty if it can.
std::optional<std::string> fault_of(const std::string& text) {
  std::error_code error;
  const auto status = fs::status(text, error);
  if (!fs::exists(status)) return fmt::format("{} does not exist. Name a text file.", text);
  if (!fs::is_regular_file(status))
    return fmt::format("{} is no regular file. Name a text file.", text);
  if (::access(text.c_str(), R_OK) != 0)
    return fmt::format("{} cannot be read. Change its permissions.", text);
  if (fs::file_size(text, error) == 0) {
    return fmt::format("{} is empty: a document needs at least one byte. Leave it out.", text);
  }
  return std::nullopt;
}

struct Sorted {
  std::vector<std::string> good;
  std::vector<core::Problem> bad;
};

Sorted sort_texts(const std::vector<std::string>& texts) {
  Sorted sorted;
  for (const std::string& text : texts) {
    if (auto fault = fault_of(text)) {
      sorted.bad.push_back({std::move(*fault)});
    } else {
      sorted.good.push_back(text);
    }
  }
  return sorted;
}

void check_output(const PrepareOptions& options) {
  if (options.output.empty())
    throw core::ConfigError("the output is not named. Give it with -o FILE.");
  const fs::path folder = fs::path(options.output).parent_path();
  std::error_code error;
  if (!folder.empty() && !fs::is_directory(folder, error)) {
    throw core::ConfigError(fmt::format("the folder {} of -o {} does not exist. Make it first.",
                                        folder.string(), options.output));
  }
  for (const std::string& text : options.texts) {
    if (fs::equivalent(text, options.output, error)) {
      throw core::ConfigError(
          fmt::format("-o {} is one of the texts and would be overwritten. Name another file.",
                      options.output));
    }
  }
}

}  // namespace

double PrepareReport::bytes_per_token() const {
  return tokens == 0 ? 0.0 : static_cast<double>(text_bytes) / static_cast<double>(tokens);
}

PrepareReport prepare(const PrepareOptions& options) {
  const std::unique_ptr<Tokenizer> tokenizer = make_tokenizer(options.tokenizer);
  check_output(options);
  if (options.texts.empty())
    throw core::ConfigError("no text is given. Name at least one text file.");
  Sorted texts = sort_texts(options.texts);
  const bool too_many = texts.bad.size() > static_cast<std::size_t>(std::max(options.skip_bad, 0));
  if (too_many || texts.good.empty()) throw core::ConfigError(std::move(texts.bad));

  PrepareReport report;
  for (core::Problem& problem : texts.bad) report.skipped.push_back(std::move(problem.text));
  TokenWriter writer(options.output, tokenizer->id());
  for (const std::string& path : texts.good) {
    const core::MappedFile file(path);
    const auto bytes = file.bytes();
    writer.begin_document();
    tokenizer->encoder()->encode({reinterpret_cast<const char*>(bytes.data()), bytes.size()},
                                 [&](std::span<const std::uint32_t> ids) { writer.append(ids); });
    report.text_bytes += bytes.size();
  }
  const TokenHeader header = writer.finish();
  report.documents = header.num_documents;
  report.tokens = header.num_tokens;
  return report;
}

std::string describe(const PrepareReport& report, const std::string& output) {
  std::string text =
      fmt::format("{}: {} document{}, {} tokens, {:.2f} bytes per token", output,
                  core::format_count(report.documents), report.documents == 1 ? "" : "s",
                  core::format_count(report.tokens), report.bytes_per_token());
  for (const std::string& skipped : report.skipped) text += "\nleft out: " + skipped;
  return text;
}

core::Json to_json(const PrepareReport& report) {
  return {{"documents", report.documents},
          {"tokens", report.tokens},
          {"text_bytes", report.text_bytes},
          {"bytes_per_token", report.bytes_per_token()},
          {"skipped", report.skipped}};
}

}  // namespace tutti::data
