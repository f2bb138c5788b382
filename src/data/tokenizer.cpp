// The tokenizer of bytes, and the file that keeps a tokenizer in a run's folder.
#include "data/tokenizer.h"

#include <algorithm>
#include <array>
#include <stdexcept>

#include "core/error.h"
#include "core/file.h"
#include "core/hash.h"
#include "core/suggest.h"
#include "data/gpt2.h"

namespace tutti::data {
namespace {

constexpr const char* kFileName = "tokenizer.json";
constexpr int kFileVersion = 1;

std::filesystem::path copy_beside(const std::filesystem::path& token_file) {
  return token_file.string() + "." + kFileName;
}

class ByteEncoder final : public Encoder {
 public:
  void encode(std::string_view text, const TokenSink& sink) override {
    std::array<std::uint32_t, 4096> ids;
    while (!text.empty()) {
      const std::string_view piece = text.substr(0, ids.size());
      std::ranges::transform(piece, ids.begin(),
                             [](char c) { return static_cast<unsigned char>(c); });
      sink(std::span(ids).first(piece.size()));
      text.remove_prefix(piece.size());
    }
  }
};

class ByteTokenizer final : public Tokenizer {
 public:
  [[nodiscard]] std::string name() const override { return "bytes"; }
  [[nodiscard]] std::uint64_t vocab_size() const override { return 256; }
  [[nodiscard]] bool needs_utf8() const override { return false; }

  [[nodiscard]] std::unique_ptr<Encoder> encoder() const override {
    return std::make_unique<ByteEncoder>();
  }

  [[nodiscard]] std::optional<std::size_t> find_cut(std::string_view, std::size_t from,
                                                    std::size_t) const override {
    return from;
  }

  [[nodiscard]] std::string decode(std::span<const std::int64_t> ids) const override {
    std::string text;
    text.reserve(ids.size());
    for (const std::int64_t id : ids) {
      if (id < 0 || id > 255) throw std::invalid_argument(fmt::format("token {} is no byte", id));
      text += static_cast<char>(static_cast<unsigned char>(id));
    }
    return text;
  }

  [[nodiscard]] core::Json description() const override {
    return {{"kind", "bytes"}, {"vocab_size", 256}};
  }
};

}  // namespace

std::uint64_t Tokenizer::hash() const { return core::xxh3(description().dump()); }

void Tokenizer::save(const std::filesystem::path& folder) const { write(folder / kFileName); }

void Tokenizer::save_beside(const std::filesystem::path& token_file) const {
  write(copy_beside(token_file));
}

void Tokenizer::write(const std::filesystem::path& path) const {
  const core::Json file = {{"version", kFileVersion},
                           {"name", name()},
                           {"hash", core::to_hex(hash())},
                           {"tokenizer", description()}};
  core::write_file_atomically(path, file.dump(2) + "\n");
}

std::unique_ptr<Tokenizer> make_tokenizer(std::string_view name,
                                          const std::filesystem::path& vocabulary) {
  const std::vector<std::string> known = {"bytes", "gpt2"};
  if (name == "bytes") return std::make_unique<ByteTokenizer>();
  if (name == "gpt2") return read_gpt2(vocabulary.empty() ? default_vocabulary() : vocabulary);
  const std::string near = core::nearest(name, known);
  throw core::ConfigError(fmt::format("--tokenizer {} is not known{}. Use one of: {}.", name,
                                      near.empty() ? "" : fmt::format(" (did you mean {}?)", near),
                                      fmt::join(known, ", ")));
}

std::filesystem::path default_vocabulary() {
  namespace fs = std::filesystem;
  const fs::path place = fs::path(".deps") / "gpt2";
  std::error_code ignored;
  if (fs::is_directory(place, ignored)) return place;
  for (fs::path folder = fs::read_symlink("/proc/self/exe", ignored).parent_path();
       folder.has_relative_path(); folder = folder.parent_path()) {
    if (fs::is_directory(folder / place, ignored)) return folder / place;
  }
  return place;
}

/// The inverse of Tokenizer::description. Throws core::ConfigError or core::Json::exception.
static std::unique_ptr<Tokenizer> tokenizer_from(const core::Json& description) {
  const auto kind = description.at("kind").get<std::string>();
  return kind == "gpt2" ? gpt2_from(description) : make_tokenizer(kind);
}

/// What Tokenizer::write() wrote. `cure`: a sentence, where to get it if it is no good.
static std::unique_ptr<Tokenizer> read_tokenizer(const std::filesystem::path& path,
                                                 std::string_view cure) {
  const auto refuse = [&](std::string_view why) -> core::ConfigError {
    return core::ConfigError(fmt::format("{}: {}. {}", path.string(), why, cure));
  };
  core::Json file;
  std::unique_ptr<Tokenizer> tokenizer;
  std::string hash;
  try {
    file = core::Json::parse(core::read_file(path));
    if (const int version = file.at("version").get<int>(); version != kFileVersion) {
      throw refuse(fmt::format("format version is {}, expected {}", version, kFileVersion));
    }
    hash = file.at("hash").get<std::string>();
    tokenizer = tokenizer_from(file.at("tokenizer"));
  } catch (const core::RunError& error) {
    throw refuse(error.what());
  } catch (const core::Json::exception& error) {
    throw refuse(fmt::format("is no tokenizer file ({})", error.what()));
  }
  if (const std::string expected = core::to_hex(tokenizer->hash()); hash != expected) {
    throw refuse(fmt::format("the tokenizer's hash is {}, expected {}", hash, expected));
  }
  return tokenizer;
}

std::unique_ptr<Tokenizer> load_tokenizer(const std::filesystem::path& folder) {
  return read_tokenizer(folder / kFileName,
                        "It is the copy of the tokenizer that a run keeps: take it from another "
                        "run on the same token file.");
}

std::unique_ptr<Tokenizer> find_tokenizer(std::span<const std::string> token_files,
                                          const TokenizerId& wanted) {
  std::vector<core::Problem> problems;
  const auto attempt = [&](const std::string& where, const auto& make) {
    std::unique_ptr<Tokenizer> tokenizer;
    try {
      tokenizer = make();
      if (tokenizer->id() == wanted) return tokenizer;
      problems.push_back({fmt::format(
          "{} is not the {} that made the token file: its hash is {}, expected {}.", where,
          wanted.name, core::to_hex(tokenizer->hash()), core::to_hex(wanted.hash))});
    } catch (const core::ConfigError& error) {
      problems.push_back({error.what()});
    }
    return std::unique_ptr<Tokenizer>();
  };
  for (const std::string& file : token_files) {
    const std::filesystem::path copy = copy_beside(file);
    std::error_code ignored;
    if (!std::filesystem::exists(copy, ignored)) continue;
    if (auto found = attempt(copy.string(), [&] {
          return read_tokenizer(copy, "`tutti data prepare` writes it beside the token file.");
        })) {
      return found;
    }
  }
  auto found =
      attempt("what this host has under that name", [&] { return make_tokenizer(wanted.name); });
  if (found != nullptr) return found;
  throw core::ConfigError(std::move(problems));
}

std::vector<std::int64_t> encode_all(const Tokenizer& tokenizer, std::string_view text) {
  std::vector<std::int64_t> all;
  tokenizer.encoder()->encode(text, [&](std::span<const std::uint32_t> ids) {
    all.insert(all.end(), ids.begin(), ids.end());
  });
  return all;
}

}  // namespace tutti::data
