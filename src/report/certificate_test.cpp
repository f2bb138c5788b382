// Synthetic dumps with planted differences; expected errors are computed by hand.
#include "report/certificate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <functional>

#include "checkpoint/writer.h"
#include "core/error.h"
#include "core/file.h"
#include "core/temporary_folder.h"

namespace tutti::report {
namespace {

namespace fs = std::filesystem;
using core::Json;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

/// A run in memory. Model order: a, then b; "a" has gradient (3, 4), norm 5.
struct Tensors {
  std::vector<std::pair<std::string, std::vector<double>>> values;
  std::vector<double>& operator[](const std::string& name) {
    for (auto& [key, value] : values) {
      if (key == name) return value;
    }
    throw std::out_of_range(name);
  }
};

struct Example {
  std::vector<double> losses = {2.0, 1.5};
  std::map<int, Tensors> steps;
  Example() {
    for (const int step : {1, 2}) {
      steps[step].values = {
          {"a", {1, 2}}, {"b", {5, 5, 5}}, {"grad/a", {3, 4}}, {"grad/b", {1, 1, 1}}};
    }
  }
};

class CertificateTest : public testing::Test {
 protected:
  template <class Real>
  fs::path write(const std::string& name, Example run) const {
    const fs::path dump = folder_ / name;
    fs::remove_all(dump);  // of an earlier example: its steps must not stand in for missing ones
    for (auto& [step, tensors] : run.steps) {
      std::vector<std::vector<Real>> memory;
      std::vector<checkpoint::OwnedPiece> pieces;
      for (const auto& [tensor, values] : tensors.values) {
        memory.emplace_back(values.begin(), values.end());
        const auto size = static_cast<std::int64_t>(values.size());
        pieces.push_back({tensor,
                          sizeof(Real) == 8 ? "F64" : "F32",
                          {size},
                          {0, size},
                          std::as_bytes(std::span(memory.back()))});
      }
      const std::vector texts = {
          checkpoint::write_rank_file(checkpoint::temporary_folder(dump, step), 0, pieces)};
      checkpoint::commit(dump, {.step = step}, texts);
    }
    core::write_file_atomically(dump / kLossesFile, Json(run.losses).dump());
    return dump;
  }

  /// The result of a layout that differs from the reference by `plant`; one rank in fp32 is exact
  /// unless `single` is given, so that the band is its floor, 1e-6.
  LayoutResult judge(const std::function<void(Example&)>& plant, const Example& single = {},
                     bool adamw = false) {
    Example run;
    plant(run);
    input_ = {.reference64 = write<double>("ref", {}), .single = write<float>("one", single)};
    input_.adamw = adamw;
    const fs::path dump = write<double>("run", run);
    input_.runs = {{"dp=2", dump, dump}};
    certificate_ = certify(input_);
    return certificate_.layouts.at(0);
  }

  core::TemporaryFolder temporary_{"cert"};
  fs::path folder_ = temporary_.path();
  CertificateInput input_;
  Certificate certificate_;
};

TEST_F(CertificateTest, EqualRunsAreEqual) {
  const LayoutResult result = judge([](Example&) {});
  EXPECT_EQ(result.grad_error, 0.0);
  EXPECT_EQ(result.param_error, 0.0);
  EXPECT_EQ(result.loss_error, 0.0);
  EXPECT_DOUBLE_EQ(result.band, 1e-6);
  EXPECT_TRUE(result.ok());
  EXPECT_EQ(
      to_json(certificate_).dump(),
      R"({"layouts":[{"layout":"dp=2","loss_error":0.0,"grad_error":0.0,"param_error":0.0,)"
      R"("band":1e-06,"bitwise_repeat":true,"first_difference":null,"largest_difference":null}],)"
      R"("zero_gradient_by_symmetry":[],"ok":true})");
}

TEST_F(CertificateTest, ErrorIsTheDistanceOverTheNorm) {
  const LayoutResult result = judge([](Example& run) { run.steps[2]["grad/a"] = {3.003, 4.004}; });
  EXPECT_NEAR(result.grad_error, 0.001, 1e-12);  // |(0.003, 0.004)| / 5
  EXPECT_EQ(result.param_error, 0.0);
  ASSERT_TRUE(result.first_difference.has_value());
  EXPECT_EQ(result.first_difference.value().tensor, "grad/a");
  EXPECT_EQ(result.first_difference.value().step, 2);
  EXPECT_FALSE(certificate_.ok());
  EXPECT_EQ(to_json(certificate_)["layouts"][0]["first_difference"], "grad/a");
  EXPECT_EQ(to_json(certificate_)["ok"], false);
  EXPECT_THAT(table(certificate_), HasSubstr("dp=2: the first difference is grad/a at step 2"));
}

TEST_F(CertificateTest, BandIsFourTimesTheErrorOfOneRank) {
  Example single;
  for (auto& [step, tensors] : single.steps) tensors["grad/a"] = {3, 4.5};  // error 0.1
  EXPECT_TRUE(judge([](Example& run) { run.steps[1]["grad/a"] = {3, 5.9}; }, single).ok());  // 0.38
  EXPECT_NEAR(certificate_.layouts[0].band, 0.400001, 1e-9);
  EXPECT_FALSE(judge(
                   [](Example& run) {
                     run.steps[1]["grad/a"] = {3, 6.1};
                   },
                   single)
                   .ok());  // 0.42
  EXPECT_FALSE(judge(
                   [](Example& run) {
                     run.steps[1]["grad/b"] = {1, 1, 1.1};
                   },
                   single)
                   .ok())
      << "each tensor has its own band";
}

TEST_F(CertificateTest, BandOfBf16BeginsAtOneRoundingAndIsWider) {
  Example single;
  for (auto& [step, tensors] : single.steps) tensors["grad/a"] = {3, 4.5};  // error 0.1
  judge([](Example& run) { run.steps[1]["grad/a"] = {3, 7.9}; }, single);   // 0.78
  input_.half = true;
  EXPECT_NEAR(certify(input_).layouts[0].band, 0.8 + 0x1p-9, 1e-6);
  EXPECT_TRUE(certify(input_).ok());

  EXPECT_FALSE(judge([](Example& run) { run.steps[1]["grad/a"] = {3, 4.009}; }).ok());  // 0.0018
  input_.half = true;
  EXPECT_TRUE(certify(input_).ok());
  EXPECT_FALSE(judge([](Example& run) { run.steps[1]["grad/a"] = {3, 4.011}; }).ok());  // 0.0022
  input_.half = true;
  EXPECT_FALSE(certify(input_).ok());
}

TEST_F(CertificateTest, ParametersOfAdamwInBf16AreNotCompared) {
  judge([](Example& run) { run.steps[1]["b"] = {1, 1, 9}; }, {}, /*adamw=*/true);
  EXPECT_FALSE(certificate_.ok());
  EXPECT_TRUE(certificate_.parameters_compared);
  input_.half = true;
  const Certificate half = certify(input_);
  EXPECT_TRUE(half.ok());
  EXPECT_FALSE(half.parameters_compared);
  EXPECT_TRUE(to_json(half)["layouts"][0]["param_error"].is_null());
  EXPECT_THAT(table(half), HasSubstr("parameters are not compared"));
  input_.adamw = false;
  EXPECT_FALSE(certify(input_).ok()) << "SGD's are";
}

TEST_F(CertificateTest, FirstDifferenceIsEarliestStepThenGradientsThenModelOrder) {
  const auto all = [](Example& run) {
    for (auto& [step, tensors] : run.steps) {
      for (auto& [name, values] : tensors.values) values[0] += 1;
    }
    run.losses = {9, 9};
  };
  EXPECT_EQ(judge(all).first_difference.value().tensor, "grad/a");
  EXPECT_EQ(judge(all).first_difference.value().step, 1);
  EXPECT_EQ(judge([](Example& run) {
              run.steps[1]["b"][0] += 1;
              run.steps[2]["grad/a"][0] += 1;
            })
                .first_difference.value()
                .tensor,
            "b");
  EXPECT_EQ(judge([](Example& run) { run.losses[1] = 1.6; }).first_difference.value().tensor,
            "loss");
  EXPECT_NEAR(certificate_.layouts[0].loss_error, 0.1 / 1.5, 1e-12);
}

TEST_F(CertificateTest, LargestDifferenceIsOfTheFirstsKindAndStep) {
  const LayoutResult& result = judge([](Example& run) {
    run.steps[1]["grad/a"][0] += 0.1;
    run.steps[1]["grad/b"][0] += 0.5;
    run.steps[1]["b"][0] += 50;       // a parameter
    run.steps[2]["grad/a"][0] += 50;  // later
  });
  EXPECT_EQ(result.first_difference.value().tensor, "grad/a");
  EXPECT_EQ(result.largest_difference.value().tensor, "grad/b");
  EXPECT_EQ(to_json(certificate_)["layouts"][0]["largest_difference"], "grad/b");
  EXPECT_THAT(table(certificate_), HasSubstr("dp=2: the largest is grad/b at step 1"));
}

TEST_F(CertificateTest, NotFiniteAndMissingAreDifferences) {
  EXPECT_EQ(judge([](Example& run) { run.steps[1]["a"][1] = std::nan(""); })
                .first_difference.value()
                .tensor,
            "a");
  EXPECT_TRUE(to_json(certificate_)["layouts"][0]["param_error"].is_null());
  EXPECT_EQ(
      judge([](Example& run) { run.losses[0] = std::nan(""); }).first_difference.value().tensor,
      "loss");
  EXPECT_EQ(judge([](Example& run) { run.losses.pop_back(); }).first_difference.value().tensor,
            "loss");
  EXPECT_EQ(judge([](Example& run) { run.steps.erase(2); }).first_difference.value().step, 2);
  EXPECT_EQ(
      judge([](Example& run) { run.steps[1]["b"].pop_back(); }).first_difference.value().tensor,
      "b");
  EXPECT_EQ(judge([](Example& run) { run.steps[2].values.erase(run.steps[2].values.begin() + 3); })
                .first_difference.value()
                .tensor,
            "grad/b");
}

TEST_F(CertificateTest, ZeroGradientsAreMeasuredAgainstTheModels) {
  // grad/b is rounding noise of 1e-12: its error is over 1e-6 x rms x sqrt(3), not over its own
  // norm.
  Example reference;
  for (auto& [step, tensors] : reference.steps) tensors["grad/b"] = {1e-12, 0, 0};
  Example run = reference;
  run.steps[1]["grad/b"] = {-1e-12, 0, 0};
  run.steps[1]["b"] = {5, 5, 6};  // Adam turns the noise into a step
  const fs::path dump = write<double>("run", run);
  CertificateInput input{.reference64 = write<double>("ref", reference),
                         .single = write<float>("one", reference),
                         .runs = {{"dp=2", dump, dump}}};
  const Certificate adamw = certify(input);
  EXPECT_NEAR(adamw.layouts[0].grad_error, 2e-12 / (1e-6 * std::sqrt(25.0 / 5) * std::sqrt(3.0)),
              1e-12);
  EXPECT_TRUE(adamw.ok());
  EXPECT_THAT(adamw.zero_gradient_by_symmetry, ElementsAre("b"));
  EXPECT_THAT(table(adamw), HasSubstr("zero gradient by symmetry, parameters not compared: b"));
  input.adamw = false;
  const Certificate sgd = certify(input);
  EXPECT_THAT(sgd.zero_gradient_by_symmetry, IsEmpty());
  EXPECT_EQ(sgd.layouts[0].first_difference.value().tensor, "b");
}

TEST_F(CertificateTest, AModelWithoutAnyGradientEqualsItself) {
  Example reference;
  for (auto& [step, tensors] : reference.steps) {
    tensors["grad/a"] = {0, 0};
    tensors["grad/b"] = {0, 0, 0};
  }
  const fs::path dump = write<double>("run", reference);
  const Certificate certificate =
      certify({.reference64 = dump, .single = dump, .runs = {{"dp=2", dump, dump}}});
  EXPECT_TRUE(certificate.ok()) << "no division of zero by zero";
}

TEST_F(CertificateTest, AGradientThatWakesUpLaterIsCompared) {
  Example reference;
  reference.steps[1]["grad/b"] = {0, 0, 0};
  const fs::path dump = write<double>("run", reference);
  const Certificate certificate = certify({.reference64 = dump, .single = dump, .runs = {}});
  EXPECT_THAT(certificate.zero_gradient_by_symmetry, IsEmpty());
}

TEST_F(CertificateTest, ARepeatWithOtherBitsFails) {
  judge([](Example&) {});
  Example other;
  other.steps[2]["b"][2] = std::nextafter(5.0, 6.0);
  input_.runs[0].repeat = write<double>("repeat", other);
  certificate_ = certify(input_);
  EXPECT_FALSE(certificate_.layouts[0].bitwise_repeat);
  EXPECT_FALSE(certificate_.ok());
  EXPECT_THAT(table(certificate_), HasSubstr("gave other bits"));
}

TEST_F(CertificateTest, DumpsThatAreNoDumpsAreRefused) {
  judge([](Example&) {});
  core::write_file_atomically(input_.single / kLossesFile, "[1.0]");
  EXPECT_THROW(certify(input_), core::RunError);
  core::write_file_atomically(input_.single / kLossesFile, "{");
  EXPECT_THROW(certify(input_), core::RunError);
  fs::remove_all(input_.single);
  EXPECT_THROW(certify(input_), core::RunError);
}

}  // namespace
}  // namespace tutti::report
