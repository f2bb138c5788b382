// Views of token files: where sample k and validation window w lie.
#include "data/corpus.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <stdexcept>

#include "core/error.h"
#include "core/rng.h"
#include "data/check.h"

namespace tutti::data {
namespace {

/// floor(share * length). The small addition undoes the rounding of decimal shares: 0.29 of 100
/// tokens are 29.
std::uint64_t held_out_tokens(double share, std::uint64_t length) {
  return static_cast<std::uint64_t>(std::floor(share * static_cast<double>(length) + 1e-6));
}

}  // namespace

void TokenStream::append(std::shared_ptr<const TokenFile> file, TokenRange range) {
  if (range.size() == 0) return;
  pieces_.push_back({std::move(file), range, num_tokens_});
  num_tokens_ += range.size();
}

std::uint64_t TokenStream::num_samples(int sequence) const {
  return num_tokens_ == 0 ? 0 : (num_tokens_ - 1) / static_cast<std::uint64_t>(sequence);
}

void TokenStream::copy(std::uint64_t first, std::span<std::int64_t> out) const {
  if (first > num_tokens_ || out.size() > num_tokens_ - first) {
    throw std::invalid_argument(
        fmt::format("tokens {} to {} of {}", first, first + out.size(), num_tokens_));
  }
  if (out.empty()) return;
  auto piece = std::prev(std::ranges::upper_bound(pieces_, first, {}, &Piece::start));
  while (!out.empty()) {
    const std::uint64_t offset = first - piece->start;
    const std::size_t count = std::min<std::uint64_t>(out.size(), piece->range.size() - offset);
    piece->file->copy(piece->range.begin + offset, out.first(count));
    out = out.subspan(count);
    first += count;
    ++piece;
  }
}

Corpus::Corpus(const DataOptions& options) : sequence_(options.sequence) {
  core::throw_if_any(check_options(options));
  const double share = options.valid_file.empty() ? options.valid : 0.0;
  if (options.weights.empty()) streams_.resize(1);
  for (const std::string& path : options.train) {
    const auto file = open(path);
    if (!options.weights.empty()) streams_.emplace_back();
    for (std::uint64_t document = 0; document < file->num_documents(); ++document) {
      const TokenRange all = file->document(document);
      const std::uint64_t cut = all.end - held_out_tokens(share, all.size());
      streams_.back().append(file, {all.begin, cut});
      hold_out(file, {cut, all.end});
    }
  }
  if (!options.valid_file.empty()) {
    const auto file = open(options.valid_file);
    for (std::uint64_t document = 0; document < file->num_documents(); ++document) {
      hold_out(file, file->document(document));
    }
  }
  deal_samples(options.weights);
}

std::shared_ptr<const TokenFile> Corpus::open(const std::string& path) {
  auto file = std::make_shared<const TokenFile>(path);
  if (!files_.empty() && file->header().tokenizer != tokenizer()) {
    const TokenizerId& other = file->header().tokenizer;
    throw core::ConfigError(
        fmt::format("{} was made by the tokenizer {} (vocabulary {}), {} by {} (vocabulary {}): "
                    "ids of one mean nothing to the other. "
                    "Prepare both with the same tokenizer.",
                    path, other.name, other.vocab_size, files_.front()->path().string(),
                    tokenizer().name, tokenizer().vocab_size));
  }
  files_.push_back(file);
  return file;
}

void Corpus::hold_out(const std::shared_ptr<const TokenFile>& file, TokenRange range) {
  num_valid_tokens_ += range.size();
  if (range.size() < 2) return;  // nothing to predict
  held_out_.push_back({file, range, num_valid_windows_});
  const auto sequence = static_cast<std::uint64_t>(sequence_);
  num_valid_windows_ += (range.size() - 1 + sequence - 1) / sequence;
}

void Corpus::deal_samples(const std::vector<double>& weights) {
  const double total = std::accumulate(weights.begin(), weights.end(), 0.0);
  double epoch = 0;  // samples, if the file that is largest for its weight occurs once
  for (std::size_t i = 0; i < weights.size(); ++i) {
    epoch = std::max(epoch,
                     static_cast<double>(streams_[i].num_samples(sequence_)) * total / weights[i]);
  }
  for (std::size_t i = 0; i < streams_.size(); ++i) {
    const std::uint64_t own = streams_[i].num_samples(sequence_);
    shares_.push_back({num_samples_, own});
    if (own == 0) continue;  // shorter than one sample
    // At least `own`: epoch * weight / total is, before rounding.
    num_samples_ += weights.empty()
                        ? own
                        : static_cast<std::uint64_t>(std::llround(epoch * weights[i] / total));
  }
}

std::uint64_t Corpus::num_train_tokens() const {
  std::uint64_t sum = 0;
  for (const TokenStream& stream : streams_) sum += stream.num_tokens();
  return sum;
}

void Corpus::sample(std::uint64_t index, std::span<std::int64_t> out) const {
  if (index >= num_samples_ || out.size() != static_cast<std::size_t>(sequence_) + 1) {
    throw std::invalid_argument(fmt::format("sample {} of {} into {} places for {} tokens", index,
                                            num_samples_, out.size(), sequence_ + 1));
  }
  const auto share = std::prev(std::ranges::upper_bound(shares_, index, {}, &Share::first_sample));
  const std::uint64_t own = (index - share->first_sample) % share->num_samples;
  streams_[static_cast<std::size_t>(share - shares_.begin())].copy(
      own * static_cast<std::uint64_t>(sequence_), out);
}

std::size_t Corpus::valid_window(std::uint64_t index, std::span<std::int64_t> out) const {
  if (index >= num_valid_windows_ || out.size() != static_cast<std::size_t>(sequence_) + 1) {
    throw std::invalid_argument(
        fmt::format("validation window {} of {} into {} places for {} tokens", index,
                    num_valid_windows_, out.size(), sequence_ + 1));
  }
  const auto part =
      std::prev(std::ranges::upper_bound(held_out_, index, {}, &HeldOut::first_window));
  const std::uint64_t begin =
      part->range.begin + (index - part->first_window) * static_cast<std::uint64_t>(sequence_);
  const std::size_t count = std::min<std::uint64_t>(out.size(), part->range.end - begin);
  part->file->copy(begin, out.first(count));
  return count;
}

std::vector<std::uint64_t> Corpus::valid_subset() const {
  const core::PhiloxKey key = core::philox_key(0, "valid_subset");
  std::vector<std::uint64_t> windows;
  for (std::uint64_t place = 0; place < num_valid_windows_; place += 10) {
    windows.push_back(core::permute(place, num_valid_windows_, key));
  }
  std::ranges::sort(windows);
  return windows;
}

}  // namespace tutti::data
