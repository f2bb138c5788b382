// GPT-2's tokenizer without its vocabulary: pieces, merges, cuts, and files that must be refused.
#include "data/gpt2.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <regex>

#include "core/error.h"
#include "data/bpe.h"
#include "data/scanner.h"
#include "data/test_files.h"
#include "data/unicode.h"
#include "data/vocabulary.h"
#include "data/word_cache.h"

namespace tutti::data {
namespace {

using core::ConfigError;
using testing::ElementsAre;
using testing::HasSubstr;
using testing_files::error_of;
using testing_files::write;

using Pieces = std::vector<std::string>;

const ClassTable& classes() {
  static const ClassTable table;
  return table;
}

Pieces pieces(std::string_view text) {
  Pieces found;
  Scanner scanner(classes(), text);
  Scanner::Part part;
  bool begins = true;
  while (scanner.next(part)) {
    if (begins) found.emplace_back();
    found.back() += part.text;
    begins = part.ends_piece;
  }
  EXPECT_TRUE(begins) << "a piece without an end";
  return found;
}

/// The pattern itself, for ASCII: an oracle that shares nothing with the scanner.
Pieces by_pattern(const std::string& text) {
  static const std::regex pattern(
      "'s|'t|'re|'ve|'m|'ll|'d| ?[A-Za-z]+| ?[0-9]+| ?[^\\sA-Za-z0-9]+|\\s+(?!\\S)|\\s+");
  return {std::sregex_token_iterator(text.begin(), text.end(), pattern), {}};
}

std::string utf8(char32_t code) {  // above U+007F
  std::string text;
  const auto rest = [&](int shift) { text += static_cast<char>(0x80 | (code >> shift & 0x3F)); };
  if (code < 0x800) {
    text += static_cast<char>(0xC0 | code >> 6);
  } else if (code < 0x10000) {
    text += static_cast<char>(0xE0 | code >> 12);
    rest(6);
  } else {
    text += static_cast<char>(0xF0 | code >> 18);
    rest(12);
    rest(6);
  }
  rest(0);
  return text;
}

std::string random_text(std::mt19937& random, std::string_view alphabet, std::size_t length) {
  std::string text(length, ' ');
  for (char& c : text) c = alphabet[random() % alphabet.size()];
  return text;
}

TEST(Scanner, FindsThePiecesOfThePatternInRandomAscii) {
  std::mt19937 random(1);
  for (int round = 0; round < 3000; ++round) {
    const std::string text = random_text(random, "  \n\tab'stmdrevl19!.", random() % 24);
    ASSERT_EQ(pieces(text), by_pattern(text)) << '"' << text << '"';
  }
}

TEST(Scanner, LeavesTheLastCharacterOfWhiteSpaceToWhatFollows) {
  EXPECT_THAT(pieces("a   b"), ElementsAre("a", "  ", " b"));
  EXPECT_THAT(pieces("a\n\nb"), ElementsAre("a", "\n", "\n", "b"));
  EXPECT_THAT(pieces("a \u3000b"), ElementsAre("a", " ", "\u3000", "b"));
  EXPECT_THAT(pieces("a \n "), ElementsAre("a", " \n "));
  EXPECT_THAT(pieces(" "), ElementsAre(" "));
  EXPECT_THAT(pieces(""), ElementsAre());
}

TEST(Scanner, KnowsClassesBeyondAscii) {
  EXPECT_THAT(pieces("na\u00efve \u4f60\u597d\u0661\u00bd!"),
              ElementsAre("na\u00efve", " \u4f60\u597d", "\u0661\u00bd", "!"));
  EXPECT_THAT(pieces("e\u0301"), ElementsAre("e", "\u0301"));  // a combining mark is no letter
  EXPECT_THAT(pieces("DON'T don't"), ElementsAre("DON", "'", "T", " don", "'t"));
}

TEST(Scanner, GivesLongPiecesInPartsThatAddUp) {
  for (const std::size_t length : {Scanner::kMaxPart - 1, Scanner::kMaxPart, Scanner::kMaxPart + 1,
                                   3 * Scanner::kMaxPart, 3 * Scanner::kMaxPart + 2}) {
    SCOPED_TRACE(length);
    const std::string letters(length, 'a');
    const std::string spaces(length, ' ');
    EXPECT_EQ(pieces(letters), Pieces{letters});
    EXPECT_EQ(pieces(" " + letters + "!"), (Pieces{" " + letters, "!"}));
    EXPECT_EQ(pieces("x" + spaces), (Pieces{"x", spaces}));
    EXPECT_EQ(pieces(spaces + "x"), (Pieces{spaces.substr(1), " x"}));
    EXPECT_EQ(pieces(spaces + "\nx"), (Pieces{spaces, "\n", "x"}));
    std::string wide;
    while (wide.size() < length) wide += "\u4f60";
    EXPECT_EQ(pieces(wide + "1"), (Pieces{wide, "1"}));
  }
}

TEST(Scanner, NamesTheByteThatIsNoUtf8) {
  const std::vector<std::pair<std::string, std::uint64_t>> cases = {
      {"ab\xff", 2},           {"\x80", 0},          {"a\xc3", 1},
      {"\xc0\xaf", 0},         {"x\xe0\x80\x80", 1}, {"\xed\xa0\x80", 0},
      {"\xf4\x90\x80\x80", 0}, {"\xe2\x82 z", 0},    {"abc \xf0\x9f\x98", 4},
      {"\u00e9\xc1\xbf", 2}};
  for (const auto& [text, offset] : cases) {
    SCOPED_TRACE(testing::PrintToString(text));
    EXPECT_EQ(find_invalid_utf8(text), offset);
    try {
      pieces(text);
      ADD_FAILURE() << "accepted";
    } catch (const InvalidUtf8& error) {
      EXPECT_EQ(error.offset(), offset);
      EXPECT_THAT(error.what(), HasSubstr(fmt::format("byte {} (0x", offset)));
    }
  }
  EXPECT_EQ(find_invalid_utf8("\ud7ff\ue000\U0010ffff"), std::nullopt);
}

TEST(ClassTable, HasTheCountsOfUnicode16) {
  std::array<int, 4> count{};
  for (char32_t code = 0; code < 0x110000; ++code) {
    ++count[static_cast<std::size_t>(classes()[code])];
  }
  EXPECT_EQ(count[static_cast<std::size_t>(CharClass::Letter)], 141'028);
  EXPECT_EQ(count[static_cast<std::size_t>(CharClass::Number)], 1'911);
  EXPECT_EQ(count[static_cast<std::size_t>(CharClass::Space)], 25);
  EXPECT_EQ(classes()[0x1C89], CharClass::Letter);  // new in Unicode 16
  EXPECT_EQ(classes()[0x180E], CharClass::Other);   // white space until Unicode 6.3
}

TEST(FindCut, CutsOnlyWhereThePiecesStayTheSame) {
  std::mt19937 random(2);
  int cuts = 0;
  for (int round = 0; round < 2000; ++round) {
    std::string text = random_text(random, "  \n\tab'sl19!.", random() % 16);
    if (round % 2 == 0) text += "\u00e9\u3000\u0661\U0001F600 " + text;
    const Pieces whole = pieces(text);
    for (std::size_t from = 0; from <= text.size(); ++from) {
      const auto cut = find_cut(classes(), text, from, text.size());
      if (!cut) continue;
      ++cuts;
      ASSERT_GE(*cut, from);
      Pieces parts = pieces(text.substr(0, *cut));
      for (std::string& piece : pieces(text.substr(*cut))) parts.push_back(std::move(piece));
      ASSERT_EQ(parts, whole) << '"' << text << "\" at " << *cut;
    }
  }
  EXPECT_GT(cuts, 10'000);
}

TEST(FindCut, FindsTheFirstPlaceAndNoneInARunOfOneKind) {
  EXPECT_EQ(find_cut(classes(), "ab cd", 0, 5), 2u);
  EXPECT_EQ(find_cut(classes(), "ab cd", 3, 5), std::nullopt);
  EXPECT_EQ(find_cut(classes(), "ab cd ef", 3, 8), 5u);
  EXPECT_EQ(find_cut(classes(), "ab1", 0, 3), 2u);
  EXPECT_EQ(find_cut(classes(), "!ab", 0, 3), std::nullopt);  // "'s" is such a pair
  EXPECT_EQ(find_cut(classes(), "a   b", 2, 5), std::nullopt);
  EXPECT_EQ(find_cut(classes(), "ab cd", 0, 1), std::nullopt);
  EXPECT_THROW((void)find_cut(classes(), "ab", 1, 3), std::invalid_argument);
}

// --- merges ---

/// A vocabulary over a few letters in which every kind of chain occurs: ids of letters, pairs,
/// fours, and overlapping ones.
std::string small_merges() {
  return "a a\nb a\naa aa\na b\nab ab\nba ba\naaaa aaaa\nc aaaa\nab c\n";
}

/// The definition, done slowly: of all pairs that stand side by side, the earliest merge, leftmost.
std::vector<TokenId> merged_slowly(const MergeTable& table, std::string_view piece) {
  std::vector<TokenId> ids;
  for (const char c : piece) ids.push_back(table.byte_id(static_cast<unsigned char>(c)));
  while (true) {
    std::uint32_t least = MergeTable::kNone;
    std::size_t place = 0;
    for (std::size_t i = 0; i + 1 < ids.size(); ++i) {
      if (const std::uint32_t id = table.merged(ids[i], ids[i + 1]); id < least) {
        least = id;
        place = i;
      }
    }
    if (least == MergeTable::kNone) return ids;
    ids[place] = static_cast<TokenId>(least);
    ids.erase(ids.begin() + static_cast<std::ptrdiff_t>(place) + 1);
  }
}

TEST(Merger, MergesTheEarliestPairFirstWhateverTheLength) {
  const MergeTable table = parse_merges(small_merges());
  Merger merger(table);
  std::mt19937 random(3);
  for (int round = 0; round < 400; ++round) {
    const std::size_t length = random() % (round % 2 == 0 ? 48 : 300);
    const std::string piece = random_text(random, round % 3 == 0 ? "a" : "aabc", length);
    std::vector<TokenId> ids;
    merger.merge(piece, ids);
    ASSERT_EQ(ids, merged_slowly(table, piece)) << piece;
  }
}

TEST(LongPiece, HasTheIdsOfThePieceMergedInOneGo) {
  const MergeTable table = parse_merges(small_merges());
  Merger merger(table);
  LongPiece long_piece(table);
  std::mt19937 random(4);
  for (const std::size_t length : {0u, 1u, 4096u, 8192u, 8193u, 50'000u, 100'003u}) {
    for (const char* alphabet : {"a", "ab", "aabc", "aaaaaaaaab"}) {
      SCOPED_TRACE(testing::Message() << length << " of " << alphabet);
      const std::string piece = random_text(random, alphabet, length);
      std::vector<TokenId> expected;
      merger.merge(piece, expected);
      std::vector<TokenId> ids;
      for (std::size_t at = 0; at < length; at += 7001) {
        long_piece.append(std::string_view(piece).substr(at, 7001), ids);
      }
      long_piece.finish(ids);
      ASSERT_EQ(ids, expected);
    }
  }
}

TEST(MergeTable, RefusesMergesOfWhatIsNotThereYet) {
  std::array<TokenId, 256> bytes;
  std::iota(bytes.begin(), bytes.end(), TokenId{0});
  using Merges = std::vector<std::pair<TokenId, TokenId>>;
  EXPECT_THROW(MergeTable(bytes, Merges{{256, 0}}), std::invalid_argument);
  EXPECT_THROW(MergeTable(bytes, (Merges{{0, 1}, {0, 1}})), std::invalid_argument);
  EXPECT_EQ(MergeTable(bytes, (Merges{{0, 1}, {256, 2}})).bytes(257),
            std::string_view("\0\1\2", 3));
  bytes[1] = 0;
  EXPECT_THROW(MergeTable(bytes, Merges{}), std::invalid_argument);
}

TEST(WordCache, GivesTheSameIdsTheFirstTimeAndLater) {
  const MergeTable table = parse_merges(small_merges());
  Merger merger(table);
  WordCache cache;
  std::mt19937 random(5);
  std::vector<std::string> words = {std::string("a\0", 2), "a", std::string("a\0\0", 3)};
  for (std::size_t length = 1; length <= WordCache::kLongestWord; ++length) {
    words.push_back(random_text(random, "aabc", length));
    words.push_back(words.back());
    words.back().back() = 'x';  // same beginning
  }
  for (int round = 0; round < 3; ++round) {
    for (const std::string& word : words) {
      for (const std::string& text : {word, word + "behind it, to be ignored"}) {
        std::array<std::uint32_t, WordCache::kLongestWord> ids;
        const auto end = cache.encode(std::string_view(text).substr(0, word.size()),
                                      text.data() + text.size(), merger, ids.data());
        const std::vector<TokenId> expected = merged_slowly(table, word);
        ASSERT_TRUE(std::equal(ids.data(), end, expected.begin(), expected.end())) << word;
      }
    }
  }
}

// --- vocabulary files ---

class Vocabulary : public testing_files::InFolder {
 protected:
  std::string refusal(const std::string& merges, const std::string& ids) {
    write(path("vocab.bpe"), merges);
    write(path("encoder.json"), ids);
    return error_of<ConfigError>([&] { make_tokenizer("gpt2", path("")); });
  }
};

TEST_F(Vocabulary, ThatIsMissingOrDamagedIsRefusedByName) {
  EXPECT_THAT(error_of<ConfigError>([&] { make_tokenizer("gpt2", path("")); }),
              testing::AllOf(HasSubstr("vocab.bpe"), HasSubstr("scripts/bootstrap.sh")));
  const std::string head = "#version: 0.2\n";
  EXPECT_THAT(refusal("", "{}"), HasSubstr("does not begin with"));
  EXPECT_THAT(refusal(head + "a b", "{}"), HasSubstr("merge 1 (\"a b\") is cut short"));
  EXPECT_THAT(refusal(head + "a b\nab\n", "{}"), HasSubstr("merge 2 (\"ab\") is not two tokens"));
  EXPECT_THAT(refusal(head + "a bc\n", "{}"), HasSubstr("joins what no line before has made"));
  EXPECT_THAT(refusal(head + "a b\na b\n", "{}"), HasSubstr("makes a token that is there already"));
  EXPECT_THAT(refusal(head + "a b\n", "{}"), HasSubstr("has 1 merges, GPT-2 has 50000"));
}

TEST_F(Vocabulary, WritesEveryByteAsAPrintableCharacterOfItsOwn) {
  EXPECT_EQ(written('A'), "A");
  EXPECT_EQ(written(' '), "\u0120");
  EXPECT_EQ(written('\n'), "\u010a");
  EXPECT_EQ(written(0xE9), "\u00e9");
  EXPECT_EQ(written(0xAD), "\u0143");
  std::vector<std::string> all;
  for (int byte = 0; byte < 256; ++byte) all.push_back(written(static_cast<unsigned char>(byte)));
  std::ranges::sort(all);
  EXPECT_EQ(std::ranges::adjacent_find(all), all.end());
}

// --- with GPT-2's own vocabulary, where bootstrap has put it ---

class Gpt2 : public testing_files::InFolder {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(default_vocabulary() / "vocab.bpe")) {
      GTEST_SKIP() << "no vocabulary in .deps/gpt2: scripts/bootstrap.sh fetches it";
    }
    tokenizer_ = make_tokenizer("gpt2");
  }
  std::unique_ptr<Tokenizer> tokenizer_;
};

TEST_F(Gpt2, EncodesAsPublished) {
  EXPECT_EQ(encode_all(*tokenizer_, "Hello, world!"),
            (std::vector<std::int64_t>{15496, 11, 995, 0}));
  EXPECT_EQ(tokenizer_->id(), gpt2_id());
  EXPECT_EQ(encode_all(*tokenizer_, "<|endoftext|>").size(), 7u);  // ordinary text
  EXPECT_EQ(tokenizer_->decode(std::vector<std::int64_t>{50256}), "<|endoftext|>");
  for (const std::int64_t id : {-1, 50257}) {
    EXPECT_THROW((void)tokenizer_->decode(std::vector<std::int64_t>{id}), std::invalid_argument);
  }
}

TEST_F(Gpt2, DecodesWhatItEncodedWhateverTheText) {
  std::mt19937 random(6);
  for (int round = 0; round < 300; ++round) {
    std::string text;
    for (std::size_t i = random() % 60; i > 0; --i) {
      char32_t code = random() % (round % 2 == 0 ? 0x80 : 0x110000);
      if (code >= 0xD800 && code < 0xE000) code = U'\U0001F600';
      text += code < 0x80 ? std::string(1, static_cast<char>(code)) : utf8(code);
    }
    ASSERT_EQ(tokenizer_->decode(encode_all(*tokenizer_, text)), text);
  }
}

TEST_F(Gpt2, EncodesEveryTokensOwnTextAlikeInAnyOrder) {
  // An encoder that remembers gives what a new one gives.
  const auto old = tokenizer_->encoder();
  for (std::int64_t id = 0; id < 50256; id += 13) {
    const std::string text = tokenizer_->decode(std::vector{id, id});
    if (find_invalid_utf8(text)) continue;
    std::vector<std::int64_t> ids;
    old->encode(text, [&](std::span<const std::uint32_t> some) {
      ids.insert(ids.end(), some.begin(), some.end());
    });
    ASSERT_EQ(ids, encode_all(*tokenizer_, text)) << text;
  }
}

TEST_F(Gpt2, IsLoadedFromTheFolderOfARunWithoutTheVocabularysFiles) {
  tokenizer_->save(path(""));
  EXPECT_EQ(files(), 1u);
  const auto loaded = load_tokenizer(path(""));
  EXPECT_EQ(loaded->id(), tokenizer_->id());
  EXPECT_EQ(encode_all(*loaded, " Exeunt"), encode_all(*tokenizer_, " Exeunt"));
  std::string damaged = testing_files::read(path("tokenizer.json"));
  damaged.replace(damaged.find("\\nh e"), 5, "\\nhxe");
  write(path("tokenizer.json"), damaged);
  EXPECT_THAT(error_of<ConfigError>([&] { load_tokenizer(path("")); }), HasSubstr("damaged"));
}

TEST_F(Gpt2, RefusesAPromptThatIsNoUtf8AndGoesOnAfterwards) {
  const auto encoder = tokenizer_->encoder();
  std::vector<std::uint32_t> ids;
  const TokenSink sink = [&](std::span<const std::uint32_t> some) {
    ids.insert(ids.end(), some.begin(), some.end());
  };
  EXPECT_THROW(encoder->encode("some words \xff", sink), InvalidUtf8);
  EXPECT_THROW(encoder->encode(std::string(100'000, 'a') + "\xff", sink), InvalidUtf8);
  ids.clear();
  encoder->encode("Hello", sink);
  EXPECT_THAT(ids, ElementsAre(15496u));
}

}  // namespace
}  // namespace tutti::data
