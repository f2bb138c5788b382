// `tutti data prepare`: looks at every text first, then encodes what is good.
#include "data/prepare.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <system_error>

#include "core/error.h"
#include "core/thread.h"
#include "core/units.h"
#include "data/encode_files.h"
#include "data/token_file.h"
#include "data/tokenizer.h"

namespace tutti::data {
namespace {

namespace fs = std::filesystem;

/// Why this text cannot be a document; empty if it can. `read`: it is read to the end, to know
/// whether it is UTF-8.
std::optional<std::string> fault_of(const std::string& text, bool read) {
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
  if (!read) return std::nullopt;
  if (const auto place = find_invalid_utf8_in(text)) {
    return fmt::format("{} is no UTF-8: byte {} begins no character. Convert it, or leave it out.",
                       text, *place);
  }
  return std::nullopt;
}

struct Sorted {
  std::vector<std::string> good;
  std::vector<core::Problem> bad;
};

Sorted sort_texts(const std::vector<std::string>& texts, bool read) {
  Sorted sorted;
  for (const std::string& text : texts) {
    if (auto fault = fault_of(text, read)) {
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

std::uint64_t total_bytes(const std::vector<std::string>& texts) {
  std::uint64_t total = 0;
  for (const std::string& text : texts) total += fs::file_size(text);
  return total;
}

}  // namespace

double PrepareReport::bytes_per_token() const {
  return tokens == 0 ? 0.0 : static_cast<double>(text_bytes) / static_cast<double>(tokens);
}

PrepareReport prepare(const PrepareOptions& options) {
  const std::unique_ptr<Tokenizer> tokenizer =
      make_tokenizer(options.tokenizer, options.vocabulary);
  check_output(options);
  if (options.texts.empty())
    throw core::ConfigError("no text is given. Name at least one text file.");
  // Where bad texts may be left out, all that is wrong with one is known before it is begun.
  Sorted texts = sort_texts(options.texts, tokenizer->needs_utf8() && options.skip_bad > 0);
  const bool too_many = texts.bad.size() > static_cast<std::size_t>(std::max(options.skip_bad, 0));
  if (too_many || texts.good.empty()) throw core::ConfigError(std::move(texts.bad));

  PrepareReport report;
  for (core::Problem& problem : texts.bad) report.skipped.push_back(std::move(problem.text));
  TokenWriter writer(options.output, tokenizer->id());
  EncodeOptions encode{.threads = options.threads > 0 ? options.threads : core::usable_cores()};
  if (options.progress) {
    encode.progress = [&, total = total_bytes(texts.good)](std::uint64_t done) {
      options.progress(done, total);
    };
  }
  report.text_bytes = encode_files(*tokenizer, texts.good, encode, writer);
  const TokenHeader header = writer.finish();
  tokenizer->save_beside(options.output);
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
