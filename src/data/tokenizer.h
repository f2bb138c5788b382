// Text to token ids and back. A token file names the tokenizer that made it, a run keeps a copy of
// it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/json.h"
#include "data/token_file.h"

namespace tutti::data {

/// Takes ids as they are made, a few thousand at a time. The span is valid during the call only.
using TokenSink = std::function<void(std::span<const std::uint32_t>)>;

/// Encodes text after text on one thread; remembers words, so a long-lived one is faster.
class Encoder {
 public:
  virtual ~Encoder() = default;

  /// Hands the ids of one whole text to `sink`, in order. Memory is bounded, so the text may be a
  /// mapped file. Throws InvalidUtf8 (a core::ConfigError) where the tokenizer reads UTF-8 only;
  /// the ids before it may have been handed out.
  virtual void encode(std::string_view text, const TokenSink& sink) = 0;
};

/// Immutable once made; const members may be called by several threads.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  /// "bytes", "gpt2": how files and people call it. 1 to 39 printable characters.
  [[nodiscard]] virtual std::string name() const = 0;
  /// Ids are 0 .. vocab_size() - 1.
  [[nodiscard]] virtual std::uint64_t vocab_size() const = 0;
  /// Whether it refuses a text that is no UTF-8.
  [[nodiscard]] virtual bool needs_utf8() const = 0;
  /// An encoder of its own for each thread; the tokenizer must outlive it.
  [[nodiscard]] virtual std::unique_ptr<Encoder> encoder() const = 0;
  /// The first place in [from, to] where a text may be cut: the ids of the parts, one after the
  /// other, are those of the whole. Empty if there is none. from <= to <= text.size().
  [[nodiscard]] virtual std::optional<std::size_t> find_cut(std::string_view text, std::size_t from,
                                                            std::size_t to) const = 0;
  /// The text of these ids, byte for byte: it may begin or end within a UTF-8 character.
  /// Throws std::invalid_argument for an id outside the vocabulary.
  [[nodiscard]] virtual std::string decode(std::span<const std::int64_t> ids) const = 0;
  /// All that load_tokenizer needs to make it again (without the hash).
  [[nodiscard]] virtual core::Json description() const = 0;

  /// xxh3 of the description: equal hashes, equal ids for every text.
  [[nodiscard]] std::uint64_t hash() const;
  [[nodiscard]] TokenizerId id() const { return {name(), hash(), vocab_size()}; }
  /// Writes `folder`/tokenizer.json atomically. Throws core::RunError.
  void save(const std::filesystem::path& folder) const;
  /// The same beside a token file of its ids, as TOKEN_FILE.tokenizer.json: with it the token file
  /// can be used where the vocabulary is not.
  void save_beside(const std::filesystem::path& token_file) const;

 private:
  void write(const std::filesystem::path& path) const;
};

/// A tokenizer by name. Throws core::ConfigError for an unknown one.
///   bytes  every byte is a token, vocabulary 256.
///   gpt2   GPT-2's, vocabulary 50,257; read from the folder `vocabulary` (encoder.json and
///          vocab.bpe), by default that of default_vocabulary(). Throws core::ConfigError if its
///          files are missing, damaged or not GPT-2's.
std::unique_ptr<Tokenizer> make_tokenizer(std::string_view name,
                                          const std::filesystem::path& vocabulary = {});

/// Where scripts/bootstrap.sh puts GPT-2's vocabulary: .deps/gpt2 in the current folder, else in
/// the nearest folder above the program that has one. The first of these if there is none.
std::filesystem::path default_vocabulary();

/// What save() wrote into `folder`. Throws core::ConfigError if the file is missing, damaged or of
/// an unknown kind.
std::unique_ptr<Tokenizer> load_tokenizer(const std::filesystem::path& folder);

/// The tokenizer that made these token files (`wanted`, the same for all of them): a copy beside
/// one of them, else the one of that name. Throws core::ConfigError with what is wrong with each if
/// none is `wanted`.
std::unique_ptr<Tokenizer> find_tokenizer(std::span<const std::string> token_files,
                                          const TokenizerId& wanted);

/// All ids of a short text, a prompt for instance. Throws as Encoder::encode.
std::vector<std::int64_t> encode_all(const Tokenizer& tokenizer, std::string_view text);

}  // namespace tutti::data
