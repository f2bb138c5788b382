// The format's own bytes, round trips, and every damage that a header can carry.
#include "core/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <random>

#include "core/error.h"
#include "core/file.h"
#include "core/temporary_folder.h"

namespace tutti::core {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

class Safetensors : public testing::Test {
 protected:
  /// Opens a file with these bytes; what() of the refusal, or "accepted".
  std::string refusal_of(const std::string& bytes) const {
    fs::remove(
        path_);  // hundreds of times: without fsync, and not in place, which ext4 would flush too
    std::ofstream(path_, std::ios::binary) << bytes;
    try {
      const SafetensorsFile file(path_);
      return "accepted";
    } catch (const RunError& error) {
      EXPECT_THAT(error.what(), HasSubstr("x.safetensors"));
      return error.what();
    }
  }

  static std::string with_header(const std::string& header, const std::string& data) {
    std::string bytes(8, '\0');
    for (std::size_t i = 0; i < 8; ++i) bytes[i] = static_cast<char>(header.size() >> (8 * i));
    return bytes + header + data;
  }

  std::string refusal(const std::string& header, const std::string& data = "12345678") const {
    return refusal_of(with_header(header, data));
  }

  void write_example() const {
    static const std::vector<float> floats = {1.5F, -2.0F, 0.25F};
    static const std::vector<std::int64_t> integers = {7};
    write_safetensors(path_,
                      {{{"f", "F32", {3, 1}, std::as_bytes(std::span(floats))},
                        {"none", "BF16", {0, 5}, {}},
                        {"i", "I64", {}, std::as_bytes(std::span(integers))}}},
                      {{"made by", "a test"}});
  }

  TemporaryFolder temporary_{"st"};
  fs::path folder_ = temporary_.path();
  fs::path path_ = folder_ / "x.safetensors";
};

TEST_F(Safetensors, WritesTheBytesOfTheFormat) {
  const std::string two = "\x01\x02";
  write_safetensors(path_, {{{"a", "U8", {2}, std::as_bytes(std::span(two))}}});
  const std::string header = R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}})";
  EXPECT_EQ(header.size(), 53U);
  EXPECT_EQ(read_file(path_), with_header(header + "   ", two)) << "padded to 8 bytes";
}

TEST_F(Safetensors, ReadsBackWhatWasWritten) {
  write_example();
  const SafetensorsFile file(path_);
  EXPECT_THAT(file.metadata(), ElementsAre(testing::Pair("made by", "a test")));
  ASSERT_EQ(file.entries().size(), 3U);
  const SafetensorsEntry& f = file.at("f");
  EXPECT_EQ(f.dtype, "F32");
  EXPECT_THAT(f.shape, ElementsAre(3, 1));
  ASSERT_EQ(f.bytes.size(), 12U);
  EXPECT_EQ(reinterpret_cast<const float*>(f.bytes.data())[2], 0.25F);
  EXPECT_EQ(*reinterpret_cast<const std::int64_t*>(file.at("i").bytes.data()), 7) << "aligned";
  EXPECT_TRUE(file.at("i").shape.empty());
  EXPECT_TRUE(file.at("none").bytes.empty());
  EXPECT_THROW((void)file.at("g"), RunError);
}

TEST_F(Safetensors, RefusesEveryLengthThatIsCutShort) {
  write_example();
  const std::string whole = read_file(path_);
  for (std::size_t length = 0; length < whole.size(); ++length) {
    EXPECT_THAT(refusal_of(whole.substr(0, length)), HasSubstr("damaged")) << length << " bytes";
  }
  EXPECT_EQ(refusal_of(whole), "accepted");
  EXPECT_THAT(refusal_of(whole + "x"), HasSubstr("1 bytes follow the last array"));
}

TEST_F(Safetensors, SurvivesRandomBytes) {
  write_example();
  const std::string whole = read_file(path_);
  std::mt19937 random(3);
  for (int round = 0; round < 500; ++round) {
    std::string damaged = whole;
    for (int i = 0; i < 3; ++i) damaged[random() % whole.size()] = static_cast<char>(random());
    refusal_of(damaged);  // whatever it says: no crash, no other exception, nothing out of bounds
  }
}

TEST_F(Safetensors, RefusesAbsurdSizes) {
  EXPECT_THAT(refusal_of(std::string(8, '\xff') + "{}"), HasSubstr("not a safetensors file"));
  EXPECT_THAT(refusal(R"({"a":{"dtype":"U8","shape":[9],"data_offsets":[0,9]}})"),
              HasSubstr("\"a\" ends at byte 9 of the data, which has 8"));
  EXPECT_THAT(
      refusal(R"({"a":{"dtype":"F64","shape":[2305843009213693953],"data_offsets":[0,8]}})"),
      HasSubstr("does not fit its 8 bytes"))
      << "2^61 + 1 elements of 8 bytes are 8 bytes if the product overflows";
  EXPECT_THAT(refusal(R"({"a":{"dtype":"U8","shape":[-8],"data_offsets":[0,8]}})"),
              HasSubstr("shape of \"a\" holds -8"));
  EXPECT_THAT(refusal(R"({"a":{"dtype":"U8","shape":[8.0],"data_offsets":[0,8]}})"),
              HasSubstr("holds 8.0"));
  EXPECT_THAT(refusal(R"({"a":{"dtype":"U8","shape":[8],"data_offsets":[8,0]}})"),
              HasSubstr("no range"));
  EXPECT_THAT(refusal(R"({"a":{"dtype":"U8","shape":[8],"data_offsets":[0,4,8]}})"),
              HasSubstr("no range"));
}

TEST_F(Safetensors, RefusesOverlapsAndGaps) {
  const auto two = [&](const char* first, const char* second) {
    return refusal(fmt::format(R"({{"a":{{"dtype":"U8","shape":[4],"data_offsets":{}}},)"
                               R"("b":{{"dtype":"U8","shape":[4],"data_offsets":{}}}}})",
                               first, second));
  };
  EXPECT_EQ(two("[4,8]", "[0,4]"), "accepted") << "any order";
  EXPECT_THAT(two("[0,4]", "[3,7]"), HasSubstr("overlap"));
  EXPECT_THAT(two("[0,4]", "[0,4]"), HasSubstr("overlap"));
  EXPECT_THAT(refusal(R"({"a":{"dtype":"U8","shape":[6],"data_offsets":[2,8]}})"),
              HasSubstr("a gap"));
}

TEST_F(Safetensors, RefusesHeadersThatAreNoHeaders) {
  EXPECT_EQ(refusal("{}", ""), "accepted");
  EXPECT_THAT(refusal("{"), HasSubstr("not JSON"));
  EXPECT_THAT(refusal(""), HasSubstr("not JSON"));
  EXPECT_THAT(refusal(std::string("{}\0rest", 7), ""), HasSubstr("a zero byte"));
  EXPECT_THAT(refusal("[]"), HasSubstr("not a JSON object"));
  EXPECT_THAT(refusal(std::string(100'000, '[')), HasSubstr("not JSON"));
  EXPECT_THAT(refusal(R"({"a":3})"), HasSubstr("\"a\" is not an object"));
  EXPECT_THAT(refusal(R"({"a":{}})"), HasSubstr("no known dtype"));
  EXPECT_THAT(refusal(R"({"a":{"dtype":"F33","shape":[2],"data_offsets":[0,8]}})"),
              HasSubstr("no known dtype"));
  EXPECT_THAT(refusal(R"({"a":{"dtype":"U8","data_offsets":[0,8]}})"), HasSubstr("\"shape\""));
  EXPECT_THAT(refusal(R"({"a":{"dtype":"U8","shape":[8]}})"), HasSubstr("\"data_offsets\""));
  EXPECT_THAT(refusal(R"({"__metadata__":1})", ""), HasSubstr("metadata"));
  EXPECT_THAT(refusal(R"({"__metadata__":{"k":1}})", ""), HasSubstr("\"k\""));
  EXPECT_THAT(refusal(R"({"a":{"dtype":"U8","shape":[8],"data_offsets":[0,8]},)"
                      R"("a":{"dtype":"U8","shape":[8],"data_offsets":[0,8]}})"),
              HasSubstr("twice"));
}

TEST_F(Safetensors, WriterRefusesWhatItCouldNotReadBack) {
  const std::string eight = "12345678";
  const auto bytes = std::as_bytes(std::span(eight));
  using Entries = std::vector<SafetensorsEntry>;
  EXPECT_THROW(write_safetensors(path_, Entries{{"a", "F32", {3}, bytes}}), std::invalid_argument);
  EXPECT_THROW(write_safetensors(path_, Entries{{"a", "F33", {2}, bytes}}), std::invalid_argument);
  EXPECT_THROW(
      write_safetensors(path_, Entries{{"a", "F32", {2}, bytes}, {"a", "F32", {2}, bytes}}),
      std::invalid_argument);
  EXPECT_THROW(write_safetensors(path_, Entries{{"__metadata__", "F32", {2}, bytes}}),
               std::invalid_argument);
  EXPECT_FALSE(fs::exists(path_)) << "refused before anything is written";
}

TEST(SafetensorsTypes, HaveTheirSizes) {
  EXPECT_EQ(safetensors_element_bytes("F64"), 8U);
  EXPECT_EQ(safetensors_element_bytes("F32"), 4U);
  EXPECT_EQ(safetensors_element_bytes("BF16"), 2U);
  EXPECT_EQ(safetensors_element_bytes("I64"), 8U);
  EXPECT_EQ(safetensors_element_bytes("U8"), 1U);
  EXPECT_EQ(safetensors_element_bytes("f32"), 0U);
}

}  // namespace
}  // namespace tutti::core
