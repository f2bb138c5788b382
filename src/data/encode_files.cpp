// Workers that take chunks, encode them as they like, and write them one after another.
#include "data/encode_files.h"

#include <sys/mman.h>
#include <unistd.h>

#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>

#include "core/error.h"
#include "core/file.h"
#include "core/thread.h"
#include "data/scanner.h"
#include "data/unicode.h"

namespace tutti::data {
namespace {

constexpr std::size_t kChunkBytes = std::size_t{1} << 20;
constexpr std::size_t kMostIds = std::size_t{1} << 20;  // that a chunk holds back until its turn

/// A mapped text.
struct Text {
  explicit Text(std::string its_path) : path(std::move(its_path)), file(path) {}
  [[nodiscard]] std::string_view view() const {
    return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
  }
  std::string path;
  core::MappedFile file;
};

/// Gives the pages of a mapped text back; whoever reads them again gets them from the page cache.
void release(std::string_view text) {
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<std::uintptr_t>(text.data()) / page * page;
  const auto end = reinterpret_cast<std::uintptr_t>(text.data() + text.size());
  ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);  // an advice: may fail
}

/// Bytes [begin, end) of a text.
struct Chunk {
  std::shared_ptr<const Text> text;
  std::size_t begin = 0;
  std::size_t end = 0;
  std::uint64_t place = 0;  // among all chunks
  [[nodiscard]] std::string_view view() const { return text->view().substr(begin, end - begin); }
};

/// Deals out all texts, chunk by chunk. One thread at a time.
class Chunks {
 public:
  Chunks(const Tokenizer& tokenizer, const std::vector<std::string>& texts)
      : tokenizer_(tokenizer), texts_(texts) {}

  /// The next one; false after the last.
  bool take(Chunk& chunk) {
    if (!text_) {
      if (num_opened_ == texts_.size()) return false;
      text_ = std::make_shared<const Text>(texts_[num_opened_++]);
      at_ = 0;
    }
    chunk = {.text = text_, .begin = at_, .end = end_of_chunk(), .place = num_taken_++};
    at_ = chunk.end;
    if (at_ == text_->view().size()) text_.reset();
    return true;
  }

 private:
  [[nodiscard]] std::size_t end_of_chunk() const {
    const std::string_view text = text_->view();
    for (std::size_t from = at_ + kChunkBytes; from < text.size();) {
      const std::size_t to = std::min(from + kChunkBytes, text.size());
      if (const auto cut = tokenizer_.find_cut(text, from, to)) return *cut;
      release(text.substr(at_, to - at_));  // all so far: a fault maps pages around it again
      from = to;
    }
    return text.size();
  }

  const Tokenizer& tokenizer_;
  const std::vector<std::string>& texts_;
  std::size_t num_opened_ = 0;
  std::shared_ptr<const Text> text_;  // the one being cut
  std::size_t at_ = 0;                // in it
  std::uint64_t num_taken_ = 0;
};

/// Another worker has failed.
struct Stopped {};

class Pipeline {
 public:
  Pipeline(const Tokenizer& tokenizer, const std::vector<std::string>& texts,
           const EncodeOptions& options, TokenWriter& writer)
      : tokenizer_(tokenizer), options_(options), writer_(writer), chunks_(tokenizer, texts) {}

  std::uint64_t run() {
    {
      std::vector<std::jthread> threads;
      for (int i = 1; i < options_.threads; ++i) {
        threads.push_back(core::start_thread("encode", [this](const std::stop_token&) { work(); }));
      }
      work();
    }
    if (error_) std::rethrow_exception(error_);
    return bytes_;
  }

 private:
  /// Takes chunks until there are none; an error is kept for run().
  void work() {
    const std::unique_ptr<Encoder> encoder = tokenizer_.encoder();
    std::vector<std::uint32_t> ids;
    Chunk chunk;
    try {
      while (take(chunk)) {
        try {
          encode(chunk, *encoder, ids);
        } catch (const Stopped&) {
          return;
        } catch (...) {
          fail(chunk.place, std::current_exception());
          return;
        }
      }
    } catch (...) {  // a text could not be opened: after all chunks that were taken before
      fail(chunk_after_all(), std::current_exception());
    }
  }

  bool take(Chunk& chunk) {
    const std::lock_guard lock(mutex_);
    if (error_) return false;
    if (!chunks_.take(chunk)) return false;
    num_taken_ = chunk.place + 1;
    return true;
  }

  std::uint64_t chunk_after_all() {
    const std::lock_guard lock(mutex_);
    return num_taken_;
  }

  void encode(const Chunk& chunk, Encoder& encoder, std::vector<std::uint32_t>& ids) {
    bool begun = false;
    const auto write = [&] {
      await_turn(chunk.place);
      if (!std::exchange(begun, true) && chunk.begin == 0) writer_.begin_document();
      writer_.append(ids);
      ids.clear();
      release(chunk.view());
    };
    ids.clear();
    try {
      encoder.encode(chunk.view(), [&](std::span<const std::uint32_t> some) {
        ids.insert(ids.end(), some.begin(), some.end());
        if (ids.size() >= kMostIds) write();
      });
    } catch (const InvalidUtf8& error) {
      const InvalidUtf8 in_text(chunk.view(), error.offset(), chunk.begin);
      throw core::ConfigError(fmt::format("{}: {}", chunk.text->path, in_text.what()));
    }
    write();
    end_turn(chunk.end - chunk.begin);
  }

  /// Waits until all chunks before `place` are written: each is in the hands of a worker, which
  /// ends its turn or fails. Throws Stopped in the latter case.
  void await_turn(std::uint64_t place) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return error_ || turn_ == place; });
    if (error_) throw Stopped();
  }

  void end_turn(std::size_t bytes) {
    bytes_ += bytes;  // whoever has the turn writes it
    if (options_.progress) options_.progress(bytes_);
    const std::lock_guard lock(mutex_);
    ++turn_;
    changed_.notify_all();
  }

  /// Keeps the error of chunk `place` unless one before it fails too.
  void fail(std::uint64_t place, const std::exception_ptr& error) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return error_ || turn_ == place; });
    if (!error_) error_ = error;
    changed_.notify_all();
  }

  const Tokenizer& tokenizer_;
  const EncodeOptions& options_;
  TokenWriter& writer_;
  std::uint64_t bytes_ = 0;

  std::mutex mutex_;  // of all below
  std::condition_variable changed_;
  Chunks chunks_;
  std::uint64_t num_taken_ = 0;
  std::uint64_t turn_ = 0;  // the chunk that may be written
  std::exception_ptr error_;
};

}  // namespace

std::uint64_t encode_files(const Tokenizer& tokenizer, const std::vector<std::string>& texts,
                           const EncodeOptions& options, TokenWriter& writer) {
  return Pipeline(tokenizer, texts, options, writer).run();
}

std::optional<std::uint64_t> find_invalid_utf8_in(const std::string& path) {
  constexpr std::size_t kBlock = std::size_t{1} << 23;
  constexpr std::size_t kLongestCharacter = 4;
  const Text text(path);
  const std::string_view all = text.view();
  for (std::size_t place = 0; place < all.size();) {
    const std::string_view block = all.substr(place, kBlock);
    const std::size_t valid = find_invalid_utf8(block).value_or(block.size());
    // A character that the block's end cuts is looked at again, at the beginning of the next block.
    const bool cut = valid + kLongestCharacter > block.size() && place + block.size() < all.size();
    if (valid < block.size() && !cut) return place + valid;
    release(block);
    place += valid;
  }
  return std::nullopt;
}

}  // namespace tutti::data
