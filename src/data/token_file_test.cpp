// Token files: what is written is read, and what is damaged is refused by name.
#include "data/token_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <array>
#include <csignal>
#include <cstring>
#include <stdexcept>

#include "core/error.h"
#include "core/hash.h"
#include "data/test_files.h"

namespace tutti::data {
namespace {

using core::ConfigError;
using testing::HasSubstr;
using testing_files::counting;
using testing_files::Documents;
using testing_files::error_of;
using testing_files::read;
using testing_files::write;
using testing_files::write_tokens;

class TokenFiles : public testing_files::InFolder {
 protected:
  /// Opens `content` as a token file; the message of the ConfigError, or "nothing".
  std::string refusal(const std::string& content) {
    write(path("damaged"), content);
    return error_of<ConfigError>([&] { TokenFile(path("damaged")); });
  }
  /// Three documents of 5, 1 and 4 tokens of two bytes: 128 + 20 + 24 bytes.
  std::string good() {
    write_tokens(path("good"), counting({5, 1, 4}));
    return read(path("good"));
  }
  static std::string with(std::string content, std::size_t offset, std::string_view bytes) {
    return content.replace(offset, bytes.size(), bytes);
  }
};

TEST_F(TokenFiles, GiveBackWhatWasWrittenInEveryWidth) {
  for (const auto& [vocab, width] : std::vector<std::pair<std::uint64_t, int>>{
           {2, 1}, {256, 1}, {257, 2}, {65536, 2}, {65537, 4}, {std::uint64_t{1} << 32, 4}}) {
    SCOPED_TRACE(vocab);
    const auto largest = static_cast<std::uint32_t>(vocab - 1);
    write_tokens(path("t"), {{0, largest, 1}, {largest}}, vocab, "some-name");
    const TokenFile file(path("t"));
    EXPECT_EQ(file.header().bytes_per_token, width);
    EXPECT_EQ(file.header().tokenizer, (TokenizerId{"some-name", 77, vocab}));
    EXPECT_EQ(file.num_tokens(), 4u);
    EXPECT_EQ(file.num_documents(), 2u);
    EXPECT_EQ(file.document(0), (TokenRange{0, 3}));
    EXPECT_EQ(file.document(1), (TokenRange{3, 4}));
    std::vector<std::int64_t> tokens(4);
    file.copy(0, tokens);
    EXPECT_EQ(tokens, (std::vector<std::int64_t>{0, largest, 1, largest}));
    EXPECT_NO_THROW(file.verify_body());
    EXPECT_EQ(std::filesystem::file_size(path("t")),
              128u + 4u * static_cast<unsigned>(width) + 16u);
  }
}

TEST_F(TokenFiles, HaveTheLayoutThatTheHeaderDocuments) {
  TokenWriter writer(path("t"), {.name = "bytes", .hash = 0x0102030405060708, .vocab_size = 256});
  writer.begin_document();
  writer.append(std::vector<std::uint32_t>{65, 66, 67});
  writer.finish();
  using namespace std::string_literals;
  const std::string body = "ABC\0\0\0\0\0\0\0\0"s;
  const std::uint64_t hash = core::xxh3(std::string_view(body));
  std::string hash_bytes(8, '\0');
  std::memcpy(hash_bytes.data(), &hash, 8);
  EXPECT_EQ(read(path("t")), "TUTTITOK"s + "\1\0\0\0"s + "\1\0\0\0"s + "\0\1\0\0\0\0\0\0"s +
                                 "\3\0\0\0\0\0\0\0"s + "\1\0\0\0\0\0\0\0"s + "\x8\7\6\5\4\3\2\1"s +
                                 hash_bytes + "bytes"s + std::string(35 + 32, '\0') + body);
}

TEST_F(TokenFiles, CutAnywhereAreRefused) {
  const std::string content = good();
  ASSERT_EQ(content.size(), 128u + 20u + 24u);
  for (std::size_t size = 0; size < content.size(); ++size) {
    EXPECT_THAT(refusal(content.substr(0, size)), HasSubstr("cut short")) << size << " bytes";
  }
  EXPECT_THAT(refusal(content + "x"), HasSubstr("the file's size in bytes is 173, expected 172"));
  EXPECT_EQ(refusal(content), "nothing");
}

TEST_F(TokenFiles, WithAnyHeaderByteFlippedAreRefusedOrDiffer) {
  const std::string content = good();
  const TokenHeader before = TokenFile(path("good")).header();
  for (std::size_t offset = 0; offset < kTokenHeaderBytes; ++offset) {
    std::string damaged = content;
    damaged[offset] = static_cast<char>(damaged[offset] ^ 0x40);
    const std::string why = refusal(damaged);
    if (why != "nothing") {
      EXPECT_THAT(why, HasSubstr(path("damaged")));
      continue;
    }
    const TokenFile file(
        path("damaged"));  // another vocabulary, tokenizer or hash, which its reader compares
    const bool differs =
        file.header().tokenizer != before.tokenizer || file.header().body_hash != before.body_hash;
    EXPECT_TRUE(differs) << "byte " << offset;
  }
}

TEST_F(TokenFiles, NameTheFieldThatIsWrong) {
  using namespace std::string_literals;
  const std::string content = good();
  EXPECT_THAT(refusal(with(content, 0, "X")), HasSubstr("no token file"));
  EXPECT_THAT(refusal(with(content, 8, "\2")), HasSubstr("the format version is 2, expected 1"));
  EXPECT_THAT(
      refusal(with(content, 12, "\4")),
      HasSubstr("the number of bytes per token is 4, expected 2 for a vocabulary of 65536"));
  EXPECT_THAT(refusal(with(content, 16, "\0\0\0"s)),
              HasSubstr("the vocabulary size is 0, expected 1 to 4294967296"));
  EXPECT_THAT(refusal(with(content, 24, "\x0b")), HasSubstr("is 172, expected 174 for 11 tokens"));
  EXPECT_THAT(refusal(with(content, 31, "\x80")),
              HasSubstr("expected far more"));  // 2^63 tokens: no overflow
  EXPECT_THAT(refusal(with(content, 56, "\0"s)), HasSubstr("the tokenizer's name"));
  EXPECT_THAT(refusal(with(content, 56, std::string(40, 'n'))), HasSubstr("the tokenizer's name"));
  EXPECT_THAT(refusal(with(content, 70, "n")), HasSubstr("the tokenizer's name"));
  EXPECT_THAT(refusal(with(content, 127, "n")), HasSubstr("bytes 96 to 127"));
  EXPECT_THAT(refusal(with(content, 148, "\1")),
              HasSubstr("the first token of document 0 is 1, expected 0"));
  EXPECT_THAT(refusal(with(content, 156, "\0"s)),
              HasSubstr("the first token of document 1 is 0, expected 1 to 9"));
  EXPECT_THAT(refusal(with(content, 164, "\x0a")),
              HasSubstr("the first token of document 2 is 10, expected 6 to 9"));
  EXPECT_THAT(refusal(with(content.substr(0, 128), 24, "\0\0\0\0\0\0\0\0\0"s)),
              HasSubstr("the number of documents is 0"));
}

TEST_F(TokenFiles, WithAnyBodyByteFlippedFailVerification) {
  const std::string content = good();
  for (std::size_t offset = 128; offset < 148; ++offset) {
    std::string damaged = content;
    damaged[offset] = static_cast<char>(damaged[offset] ^ 1);
    ASSERT_EQ(refusal(damaged), "nothing");
    const TokenFile file(path("damaged"));
    EXPECT_THAT(error_of<ConfigError>([&] { file.verify_body(); }),
                HasSubstr("the hash of the tokens is"));
  }
}

TEST_F(TokenFiles, ThatAreMissingOrNoFilesAreRefusedWithACure) {
  EXPECT_THAT(error_of<ConfigError>([&] { TokenFile(path("none")); }),
              HasSubstr("none does not exist. Make it with `tutti data prepare"));
  EXPECT_THAT(error_of<ConfigError>([&] { TokenFile(path("")); }), HasSubstr("is no regular file"));
}

TEST_F(TokenFiles, RefuseATokenOutsideTheVocabularyWhenItIsRead) {
  write_tokens(path("t"), {{1, 2, 3}}, 4);
  std::string content = read(path("t"));
  content[128 + 1] = 4;
  write(path("t"), content);
  const TokenFile file(path("t"));
  std::vector<std::int64_t> one(1);
  EXPECT_NO_THROW(file.copy(0, one));
  EXPECT_THAT(error_of<core::RunError>([&] { file.copy(1, one); }), HasSubstr("token 4"));
}

TEST_F(TokenFiles, RefuseReadingBeyondTheirEnd) {
  write_tokens(path("t"), counting({5}));
  const TokenFile file(path("t"));
  std::vector<std::int64_t> three(3), none;
  EXPECT_NO_THROW(file.copy(2, three));
  EXPECT_NO_THROW(file.copy(5, none));
  EXPECT_THROW(file.copy(3, three), std::invalid_argument);
  EXPECT_THROW(file.copy(~0ull, three), std::invalid_argument);
  EXPECT_THROW((void)file.document(1), std::invalid_argument);
}

TEST_F(TokenFiles, LongerThanTheWritersBufferAreWhole) {
  const Documents documents = counting({700'000, 3, 900'000});
  write_tokens(path("t"), documents, std::uint64_t{1} << 32);
  const TokenFile file(path("t"));
  file.verify_body();
  std::vector<std::int64_t> tokens(file.num_tokens());
  file.copy(0, tokens);
  for (std::size_t i = 0; i < tokens.size(); ++i)
    ASSERT_EQ(tokens[i], static_cast<std::int64_t>(i));
}

TEST_F(TokenFiles, AppearWholeOrNotAtAll) {
  write(path("t"), "old");
  {
    TokenWriter writer(path("t"), {.name = "bytes", .vocab_size = 256});
    writer.begin_document();
    writer.append(std::vector<std::uint32_t>{1});
    EXPECT_EQ(read(path("t")), "old");
  }
  EXPECT_EQ(read(path("t")), "old");
  EXPECT_EQ(files(), 1u) << "the temporary file stayed";
}

TEST_F(TokenFiles, LeaveTheOldOneWhenTheDiskTakesNoMore) {
  write(path("t"), "old");
  rlimit old{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &old), 0);
  const rlimit small{1 << 20, old.rlim_max};
  std::signal(SIGXFSZ, SIG_IGN);  // then a write beyond the limit fails with EFBIG
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const std::string why = error_of<core::RunError>(
      [&] { write_tokens(path("t"), counting({600'000}), std::uint64_t{1} << 32); });
  ::setrlimit(RLIMIT_FSIZE, &old);
  std::signal(SIGXFSZ, SIG_DFL);
  EXPECT_THAT(why, HasSubstr("write of"));
  EXPECT_EQ(read(path("t")), "old");
  EXPECT_EQ(files(), 1u);
}

TEST_F(TokenFiles, AreNotMadeOfNothing) {
  const TokenizerId bytes = {.name = "bytes", .vocab_size = 256};
  const std::vector<std::uint32_t> one = {1}, outside = {256};
  EXPECT_THROW(TokenWriter(path("t"), bytes).finish(), std::invalid_argument);
  EXPECT_THROW(TokenWriter(path("t"), bytes).append(one), std::invalid_argument);
  EXPECT_THROW(TokenWriter(path("t"), {.name = "", .vocab_size = 256}), std::invalid_argument);
  EXPECT_THROW(TokenWriter(path("t"), {.name = std::string(40, 'n'), .vocab_size = 256}),
               std::invalid_argument);
  EXPECT_THROW(TokenWriter(path("t"), {.name = "n", .vocab_size = 0}), std::invalid_argument);
  TokenWriter writer(path("t"), bytes);
  writer.begin_document();
  EXPECT_THROW(writer.begin_document(), std::invalid_argument);
  EXPECT_THROW(writer.append(outside), std::invalid_argument);
  EXPECT_THROW(writer.finish(), std::invalid_argument);
}

// --- llm.c's files ---

class LlmCFiles : public testing_files::InFolder {
 protected:
  /// A file as llm.c's scripts write it.
  static std::string file(std::int32_t magic, std::int32_t version, std::int32_t count,
                          const std::vector<std::uint16_t>& tokens) {
    std::array<std::int32_t, 256> header{magic, version, count};
    std::string content(reinterpret_cast<const char*>(header.data()), sizeof header);
    return content.append(reinterpret_cast<const char*>(tokens.data()), 2 * tokens.size());
  }
  std::string refusal(const std::string& content) {
    write(path("x.bin"), content);
    return error_of<ConfigError>([&] { TokenFile(path("x.bin")); });
  }
};

TEST_F(LlmCFiles, AreReadAsOneDocumentOfGpt2sTokens) {
  write(path("x.bin"), file(20240520, 1, 4, {50256, 1, 2, 50255}));
  const TokenFile tokens(path("x.bin"));
  EXPECT_EQ(tokens.header().tokenizer.name, "gpt2");
  EXPECT_EQ(tokens.header().tokenizer.vocab_size, 50257u);
  EXPECT_EQ(tokens.num_documents(), 1u);
  EXPECT_EQ(tokens.document(0), (TokenRange{0, 4}));
  std::vector<std::int64_t> ids(3);
  tokens.copy(1, ids);
  EXPECT_EQ(ids, (std::vector<std::int64_t>{1, 2, 50255}));
  EXPECT_NO_THROW(tokens.verify_body());
  EXPECT_THROW((void)tokens.document(1), std::invalid_argument);
}

TEST_F(LlmCFiles, OfAnotherKindOrCutShortAreRefusedByName) {
  const std::string good = file(20240520, 1, 3, {1, 2, 3});
  EXPECT_EQ(refusal(good), "nothing");
  EXPECT_THAT(refusal(file(20240520, 2, 3, {1, 2, 3})),
              HasSubstr("the format version is 2, expected 1"));
  EXPECT_THAT(refusal(file(20240801, 7, 3, {1, 0, 2, 0, 3, 0})), HasSubstr("Llama 3"));
  EXPECT_THAT(refusal(file(20240520, 1, 0, {})), HasSubstr("the number of tokens is 0"));
  EXPECT_THAT(refusal(file(20240520, 1, -1, {})), HasSubstr("the number of tokens is -1"));
  EXPECT_THAT(refusal(good.substr(0, good.size() - 1)),
              HasSubstr("the file's size in bytes is 1029, expected 1030 for 3 tokens"));
  EXPECT_THAT(refusal(good + "x"), HasSubstr("is 1031, expected 1030"));
  EXPECT_THAT(refusal(good.substr(0, 500)), HasSubstr("its header alone 1024: it was cut short"));
  EXPECT_THAT(refusal(file(20240521, 1, 3, {1, 2, 3})), HasSubstr("no token file"));
}

TEST_F(LlmCFiles, WithATokenOutsideTheVocabularyAreFoundWhenRead) {
  write(path("x.bin"), file(20240520, 1, 2, {1, 50257}));
  const TokenFile tokens(path("x.bin"));
  std::vector<std::int64_t> ids(2);
  EXPECT_THAT(error_of<core::RunError>([&] { tokens.copy(0, ids); }), HasSubstr("token 50257"));
}

}  // namespace
}  // namespace tutti::data
