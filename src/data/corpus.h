// What a run sees of its token files: training samples and validation windows.
//
// Every document ends in a held-out part of floor(valid * length) tokens. The rest of all
// documents, laid one after another in the order of the files, are the training tokens; a sample
// may begin in one document and end in the next.
//
//   documents          aaaaaaaaaaAA  bbbbbbbbbbbbbbbBBB  ccccccC        capitals: held out
//   training tokens    aaaaaaaaaabbbbbbbbbbbbbbbcccccc
//   samples (S = 4)    aaaaa                                            sample k: S + 1 tokens from
//   place k * S,
//                          aaaaa                                        so every token but the
//                          first is a target once
//   validation         AA  BBB                                          windows never cross
//   documents
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "data/options.h"
#include "data/token_file.h"

namespace tutti::data {

/// Training tokens laid one after another. Immutable; const members may be called by several
/// threads.
class TokenStream {
 public:
  /// Tokens `range` of `file` follow. Empty ranges are allowed.
  void append(std::shared_ptr<const TokenFile> file, TokenRange range);

  [[nodiscard]] std::uint64_t num_tokens() const { return num_tokens_; }
  /// Windows of sequence + 1 tokens that start at multiples of `sequence` and fit.
  [[nodiscard]] std::uint64_t num_samples(int sequence) const;
  /// Copies tokens [first, first + out.size()). Throws std::invalid_argument if they reach beyond
  /// the end.
  void copy(std::uint64_t first, std::span<std::int64_t> out) const;

 private:
  struct Piece {
    std::shared_ptr<const TokenFile> file;
    TokenRange range;     // in the file
    std::uint64_t start;  // in the stream
  };
  std::vector<Piece> pieces_;
  std::uint64_t num_tokens_ = 0;
};

/// Immutable; const members may be called by several threads.
class Corpus {
 public:
  /// Opens the files. Throws core::ConfigError: a file is missing or damaged, two were made by
  /// different tokenizers, weights do not fit the files, or `valid` or `sequence` is out of range.
  explicit Corpus(const DataOptions& options);

  [[nodiscard]] const TokenizerId& tokenizer() const { return files_.front()->header().tokenizer; }
  [[nodiscard]] int sequence() const { return sequence_; }
  [[nodiscard]] std::uint64_t num_train_tokens() const;
  [[nodiscard]] std::uint64_t num_valid_tokens() const { return num_valid_tokens_; }

  /// Samples of one epoch. Without weights the files are one stream. With weights each file is a
  /// stream of its own, and an epoch is the shortest in which the files' samples are in proportion
  /// to their weights and every sample occurs at least once: those of the file that is largest for
  /// its weight once, the others in turn more often.
  [[nodiscard]] std::uint64_t num_samples() const { return num_samples_; }

  /// Sample `index` of an epoch into `out`, which has sequence() + 1 places. Throws
  /// std::invalid_argument otherwise, and core::RunError for a damaged file.
  void sample(std::uint64_t index, std::span<std::int64_t> out) const;

  /// Windows of at most sequence() + 1 held-out tokens of one document, starting every sequence()
  /// tokens: every held-out token but the first of its document is predicted exactly once.
  [[nodiscard]] std::uint64_t num_valid_windows() const { return num_valid_windows_; }

  /// Copies window `index` to the beginning of `out` (sequence() + 1 places; the rest is not
  /// touched). Returns the number of tokens, 2 .. sequence() + 1; it has one prediction fewer.
  std::size_t valid_window(std::uint64_t index, std::span<std::int64_t> out) const;

  /// A tenth of the windows, at least one, in ascending order, for validation during training:
  /// every tenth place of a keyed permutation. It depends on the number of windows alone, so that
  /// runs with different seeds compare.
  [[nodiscard]] std::vector<std::uint64_t> valid_subset() const;

 private:
  struct HeldOut {
    std::shared_ptr<const TokenFile> file;
    TokenRange range;
    std::uint64_t first_window;
  };
  struct Share {
    std::uint64_t first_sample;  // in the epoch
    std::uint64_t num_samples;   // different ones
  };

  std::shared_ptr<const TokenFile> open(const std::string& path);
  void hold_out(const std::shared_ptr<const TokenFile>& file, TokenRange range);
  void deal_samples(const std::vector<double>& weights);

  int sequence_;
  std::vector<std::shared_ptr<const TokenFile>> files_;
  std::vector<TokenStream> streams_;
  std::vector<Share> shares_;  // one per stream
  std::vector<HeldOut> held_out_;
  std::uint64_t num_samples_ = 0;
  std::uint64_t num_valid_tokens_ = 0;
  std::uint64_t num_valid_windows_ = 0;
};

}  // namespace tutti::data
