// Texts to token files and back, tokenizers to folders and back.
#include "data/prepare.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>

#include "core/error.h"
#include "data/gpt2.h"
#include "data/test_files.h"
#include "data/tokenizer.h"

namespace tutti::data {
namespace {

using core::ConfigError;
using testing::HasSubstr;
using testing_files::error_of;
using testing_files::read;
using testing_files::write;

class Prepare : public testing_files::InFolder {};
class TokenizerFile : public testing_files::InFolder {};

TEST(ByteTokenizer, GoesThereAndBackForEveryByteAndLength) {
  const auto tokenizer = make_tokenizer("bytes");
  EXPECT_EQ(tokenizer->vocab_size(), 256u);
  std::string text(10'000, '\0');
  for (std::size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>(i * 31);
  for (const std::size_t length : {0u, 1u, 4095u, 4096u, 4097u, 10'000u}) {
    const auto ids = encode_all(*tokenizer, text.substr(0, length));
    ASSERT_EQ(ids.size(), length);
    EXPECT_EQ(tokenizer->decode(ids), text.substr(0, length));
  }
  EXPECT_EQ(encode_all(*tokenizer, "\xff\x41"), (std::vector<std::int64_t>{255, 65}));
  for (const std::int64_t id : {-1, 256}) {
    EXPECT_THROW((void)tokenizer->decode(std::vector<std::int64_t>{id}), std::invalid_argument);
  }
}

TEST(MakeTokenizer, NamesTheNearestKnownOne) {
  EXPECT_THAT(error_of<ConfigError>([] { make_tokenizer("byte"); }),
              HasSubstr("--tokenizer byte is not known (did you mean bytes?)"));
}

TEST_F(TokenizerFile, IsLoadedFromTheFolderOfARun) {
  make_tokenizer("bytes")->save(path(""));
  const auto loaded = load_tokenizer(path(""));
  EXPECT_EQ(loaded->id(), make_tokenizer("bytes")->id());
}

TEST_F(TokenizerFile, IsRefusedWhenMissingOrDamaged) {
  const auto refusal = [&] { return error_of<ConfigError>([&] { load_tokenizer(path("")); }); };
  EXPECT_THAT(refusal(), HasSubstr("No such file"));
  make_tokenizer("bytes")->save(path(""));
  const std::string good = read(path("tokenizer.json"));
  const auto changed = [&](std::string_view from, std::string_view to) {
    std::string text = good;
    text.replace(text.find(from), from.size(), to);
    write(path("tokenizer.json"), text);
    return refusal();
  };
  EXPECT_THAT(changed("\"version\": 1", "\"version\": 2"),
              HasSubstr("format version is 2, expected 1"));
  EXPECT_THAT(changed("\"hash\": \"", "\"hash\": \"0"), HasSubstr("hash"));
  EXPECT_THAT(changed("\"kind\"", "\"kin\""), HasSubstr("no tokenizer file"));
  EXPECT_THAT(changed("}", ""), HasSubstr("no tokenizer file"));
}

TEST_F(Prepare, MakesEachTextOneDocument) {
  write(path("a"), "To be, or not");
  write(path("b"), "\xc3\xa9");
  const PrepareReport report = prepare({.texts = {path("a"), path("b")}, .output = path("out")});
  EXPECT_EQ(report.documents, 2u);
  EXPECT_EQ(report.tokens, 15u);
  EXPECT_EQ(report.text_bytes, 15u);
  EXPECT_EQ(report.bytes_per_token(), 1.0);
  EXPECT_EQ(describe(report, "out"), "out: 2 documents, 15 tokens, 1.00 bytes per token");

  const TokenFile file(path("out"));
  file.verify_body();
  EXPECT_EQ(file.header().tokenizer, make_tokenizer("bytes")->id());
  EXPECT_EQ(file.document(1), (TokenRange{13, 15}));
  std::vector<std::int64_t> ids(15);
  file.copy(0, ids);
  EXPECT_EQ(make_tokenizer("bytes")->decode(ids), "To be, or not\xc3\xa9");
}

TEST_F(Prepare, LeavesTheTokenizerBesideTheTokenFile) {
  write(path("a"), "x");
  prepare({.texts = {path("a")}, .output = path("out")});
  EXPECT_EQ(files(), 3u);
  const std::vector<std::string> token_files = {path("out")};
  const TokenizerId bytes = make_tokenizer("bytes")->id();
  EXPECT_EQ(find_tokenizer(token_files, bytes)->id(), bytes);
}

TEST_F(TokenizerFile, BesideATokenFileIsTakenBeforeWhatTheHostHas) {
  // No host has this one: merges of its own under GPT-2's name.
  const auto own = gpt2_from({{"kind", "gpt2"}, {"merges", "t h\nth e\n"}});
  const std::vector<std::string> token_files = {path("one"), path("two")};
  const auto refusal = [&] {
    return error_of<ConfigError>([&] { find_tokenizer(token_files, own->id()); });
  };
  EXPECT_THAT(refusal(), testing::Not("nothing"));
  own->save_beside(path("two"));
  EXPECT_EQ(find_tokenizer(token_files, own->id())->id(), own->id());
  EXPECT_EQ(encode_all(*find_tokenizer(token_files, own->id()), "the").size(), 1u);
}

TEST_F(TokenizerFile, OfAnotherTokenizerOrDamagedIsPassedOver) {
  const std::vector<std::string> token_files = {path("tokens")};
  const TokenizerId bytes = make_tokenizer("bytes")->id();
  gpt2_from({{"kind", "gpt2"}, {"merges", "t h\n"}})->save_beside(path("tokens"));
  EXPECT_EQ(find_tokenizer(token_files, bytes)->id(), bytes) << "the one of that name is right";
  const TokenizerId other = {.name = "bytes", .hash = bytes.hash + 1, .vocab_size = 256};
  const auto refusal = [&] {
    return error_of<ConfigError>([&] { find_tokenizer(token_files, other); });
  };
  EXPECT_THAT(refusal(), HasSubstr("tokens.tokenizer.json is not the bytes that made the token"));
  EXPECT_THAT(refusal(), HasSubstr("under that name is not the bytes that made the token file"));
  write(path("tokens.tokenizer.json"), "{");
  EXPECT_THAT(refusal(), HasSubstr("tokens.tokenizer.json: is no tokenizer file"));
  EXPECT_EQ(find_tokenizer(token_files, bytes)->id(), bytes);
}

TEST_F(Prepare, NamesEveryBadTextAndWritesNothing) {
  write(path("good"), "x");
  write(path("empty"), "");
  const PrepareOptions options = {.texts = {path("none"), path("good"), path("empty"), path("")},
                                  .output = path("out")};
  const std::string why = error_of<ConfigError>([&] { prepare(options); });
  EXPECT_THAT(why, HasSubstr("none does not exist"));
  EXPECT_THAT(why, HasSubstr("empty is empty"));
  EXPECT_THAT(why, HasSubstr("is no regular file"));
  EXPECT_EQ(files(), 2u);
}

TEST_F(Prepare, SkipsAsManyBadTextsAsAllowed) {
  write(path("good"), "x");
  write(path("empty"), "");
  PrepareOptions options = {
      .texts = {path("none"), path("good"), path("empty")}, .output = path("out"), .skip_bad = 1};
  EXPECT_THROW(prepare(options), ConfigError);
  options.skip_bad = 2;
  const PrepareReport report = prepare(options);
  EXPECT_EQ(report.documents, 1u);
  ASSERT_EQ(report.skipped.size(), 2u);
  EXPECT_THAT(describe(report, "out"),
              HasSubstr("out: 1 document, 1 tokens, 1.00 bytes per token\nleft out: "));
  EXPECT_THROW(prepare({.texts = {path("none")}, .output = path("out"), .skip_bad = 9}),
               ConfigError);
}

TEST_F(Prepare, RefusesAnOutputThatCannotBe) {
  write(path("a"), "x");
  const auto refusal = [&](const std::string& output) {
    return error_of<ConfigError>([&] { prepare({.texts = {path("a")}, .output = output}); });
  };
  EXPECT_THAT(refusal(""), HasSubstr("not named"));
  EXPECT_THAT(refusal(path("no/out")), HasSubstr("does not exist"));
  EXPECT_THAT(refusal(path("a")), HasSubstr("would be overwritten"));
  EXPECT_EQ(read(path("a")), "x");
  EXPECT_THAT(error_of<ConfigError>([&] { prepare({.texts = {}, .output = path("out")}); }),
              HasSubstr("no text"));
}

}  // namespace
}  // namespace tutti::data
