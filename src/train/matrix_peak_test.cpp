// What a remembered matrix peak is good for: the same machine and setting, and never a lower value.
#include "train/matrix_peak.h"

#include <gtest/gtest.h>

#include "core/file.h"
#include "core/json.h"
#include "core/temporary_folder.h"

namespace tutti::train {
namespace {

class MatrixPeakFile : public testing::Test {
 protected:
  [[nodiscard]] MatrixPeakOptions options(int ranks = 1) const {
    return {.processor = "some processor", .ranks = ranks, .folder = temporary_.path() / "cache"};
  }
  [[nodiscard]] std::filesystem::path file() const { return MatrixPeak(options()).file(); }
  [[nodiscard]] core::Json remembered() const { return core::Json::parse(core::read_file(file())); }
  /// Puts `flops` in the place of everything that is remembered.
  void plant(double flops) const {
    core::Json json = remembered();
    for (auto& value : json) value = flops;
    core::write_file_atomically(file(), json.dump());
  }

 private:
  core::TemporaryFolder temporary_{"peak"};
};

TEST_F(MatrixPeakFile, IsMeasuredOnceAndRememberedAfterwards) {
  const double measured = MatrixPeak(options()).flops();
  EXPECT_GT(measured, 1e7);   // a processor of 1980 does more
  EXPECT_LT(measured, 1e15);  // no core does that
  ASSERT_EQ(remembered().size(), 1U);
  EXPECT_EQ(remembered().front(), measured);
  plant(123);
  EXPECT_EQ(MatrixPeak(options()).flops(), 123);
}

TEST_F(MatrixPeakFile, AnotherSettingHasAPeakOfItsOwn) {
  (void)MatrixPeak(options()).flops();
  plant(123);
  EXPECT_NE(MatrixPeak(options(/*ranks=*/2)).flops(), 123);
  MatrixPeakOptions wide = options();
  wide.type = at::kDouble;
  EXPECT_NE(MatrixPeak(wide).flops(), 123);
  EXPECT_EQ(remembered().size(), 3U);
  EXPECT_EQ(MatrixPeak(options()).flops(), 123);
}

TEST_F(MatrixPeakFile, MeasuringAgainKeepsTheLargerValue) {
  (void)MatrixPeak(options()).flops();
  plant(123);
  MatrixPeak low(options());
  low.measure();
  EXPECT_GT(low.flops(), 123);
  EXPECT_EQ(remembered().front(), low.flops());
  plant(1e18);
  MatrixPeak high(options());
  high.measure();
  EXPECT_EQ(high.flops(), 1e18);
}

TEST_F(MatrixPeakFile, ADamagedFileIsMeasuredOver) {
  const std::filesystem::path path = file();
  (void)MatrixPeak(options()).flops();
  for (const char* damage : {"", "{\"some", "[1, 2]", "{\"some processor\": \"fast\"}"}) {
    core::write_file_atomically(path, damage);
    EXPECT_GT(MatrixPeak(options()).flops(), 1e7) << damage;
  }
}

TEST(MatrixPeak, NeedsNoFolder) {
  MatrixPeak peak({.processor = "some processor"});
  EXPECT_GT(peak.flops(), 1e7);
  EXPECT_TRUE(peak.file().empty());
}

TEST(MatrixPeak, AFolderThatCannotBeMadeIsNone) {
  const core::TemporaryFolder temporary("peak");
  core::write_file_atomically(temporary.path() / "taken", "a file");
  MatrixPeak peak({.processor = "some", .folder = temporary.path() / "taken" / "cache"});
  EXPECT_GT(peak.flops(), 1e7);
}

}  // namespace
}  // namespace tutti::train
