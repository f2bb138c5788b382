// Words go through the cache, what is longer than any word through windows.
#include "data/gpt2.h"

#include <stdexcept>

#include "core/error.h"
#include "core/hash.h"
#include "data/bpe.h"
#include "data/scanner.h"
#include "data/unicode.h"
#include "data/vocabulary.h"
#include "data/word_cache.h"

namespace tutti::data {
namespace {

/// Tokenizer::hash of GPT-2: known beforehand, so that no other vocabulary passes for it and files
/// that say nothing of their tokenizer can be named.
constexpr std::uint64_t kGpt2Hash = 0xf27f0bcf83e10844;

class Gpt2Encoder final : public Encoder {
 public:
  Gpt2Encoder(const ClassTable& classes, const MergeTable& merges)
      : classes_(classes), merger_(merges), long_piece_(merges) {}

  void encode(std::string_view text, const TokenSink& sink) override {
    Scanner scanner(classes_, text);
    const char* end = text.data() + text.size();
    Scanner::Part part;
    bool in_long_piece = false;
    long_piece_ids_.clear();
    long_piece_.reset();
    while (scanner.next(part)) {
      if (part.ends_piece && !in_long_piece && part.text.size() <= WordCache::kLongestWord) {
        if (ids_.size() - used_ < WordCache::kLongestWord) flush(sink);
        std::uint32_t* out = ids_.data() + used_;
        used_ += static_cast<std::size_t>(cache_.encode(part.text, end, merger_, out) - out);
        continue;
      }
      long_piece_.append(part.text, long_piece_ids_);
      if (part.ends_piece) long_piece_.finish(long_piece_ids_);
      in_long_piece = !part.ends_piece;
      flush(sink);
      const std::vector<std::uint32_t> ids(long_piece_ids_.begin(), long_piece_ids_.end());
      if (!ids.empty()) sink(ids);
      long_piece_ids_.clear();
    }
    flush(sink);
  }

 private:
  void flush(const TokenSink& sink) {
    const std::size_t used = std::exchange(used_, 0);  // also if the sink throws
    if (used > 0) sink(std::span(ids_).first(used));
  }

  const ClassTable& classes_;
  Merger merger_;
  LongPiece long_piece_;
  WordCache cache_;
  std::array<std::uint32_t, 8192> ids_;
  std::size_t used_ = 0;
  std::vector<TokenId> long_piece_ids_;
};

class Gpt2Tokenizer final : public Tokenizer {
 public:
  explicit Gpt2Tokenizer(std::string merges) : merges_(std::move(merges)) {}

  [[nodiscard]] std::string name() const override { return "gpt2"; }
  [[nodiscard]] std::uint64_t vocab_size() const override { return kGpt2VocabSize; }
  [[nodiscard]] bool needs_utf8() const override { return true; }

  [[nodiscard]] std::unique_ptr<Encoder> encoder() const override {
    return std::make_unique<Gpt2Encoder>(classes_, table_);
  }

  [[nodiscard]] std::optional<std::size_t> find_cut(std::string_view text, std::size_t from,
                                                    std::size_t to) const override {
    return data::find_cut(classes_, text, from, to);
  }

  [[nodiscard]] std::string decode(std::span<const std::int64_t> ids) const override {
    std::string text;
    for (const std::int64_t id : ids) {
      if (id < 0 || id > kEndOfText) {
        throw std::invalid_argument(fmt::format("token {} of GPT-2's {}", id, kGpt2VocabSize));
      }
      text += id == kEndOfText ? kEndOfTextName : table_.bytes(static_cast<TokenId>(id));
    }
    return text;
  }

  [[nodiscard]] core::Json description() const override {
    return {{"kind", "gpt2"}, {"vocab_size", kGpt2VocabSize}, {"merges", merges_}};
  }

 private:
  std::string merges_;
  MergeTable table_ = parse_merges(merges_);
  ClassTable classes_;
};

}  // namespace

TokenizerId gpt2_id() { return {"gpt2", kGpt2Hash, kGpt2VocabSize}; }

std::unique_ptr<Tokenizer> read_gpt2(const std::filesystem::path& folder) {
  auto tokenizer = std::make_unique<Gpt2Tokenizer>(read_merges(folder));
  if (const std::uint64_t hash = tokenizer->hash(); hash != kGpt2Hash) {
    throw core::ConfigError(fmt::format(
        "{}: the vocabulary has GPT-2's size, but its hash is {}, GPT-2's is {}: it is damaged or "
        "another model's. scripts/bootstrap.sh puts the right one into .deps/gpt2.",
        folder.string(), core::to_hex(hash), core::to_hex(kGpt2Hash)));
  }
  return tokenizer;
}

std::unique_ptr<Tokenizer> gpt2_from(const core::Json& description) {
  try {
    return std::make_unique<Gpt2Tokenizer>(description.at("merges").get<std::string>());
  } catch (const std::invalid_argument& error) {
    throw core::ConfigError(fmt::format("its merges are damaged: {}", error.what()));
  }
}

}  // namespace tutti::data
