// plan.json out and in.
#include "train/plan_file.h"

#include "core/error.h"
#include "core/file.h"

namespace tutti::train {
namespace {

constexpr int kVersion = 1;

core::Json precision_to_json(const Precision& precision) {
  core::Json json = {{"type", precision.type}};
  if (precision.fp32_flops > 0)
    json["measured_flops"] = {{"fp32", precision.fp32_flops}, {"bf16", precision.bf16_flops}};
  return json;
}

Precision precision_from_json(const core::Json& json, const std::filesystem::path& path) {
  Precision precision{.type = json.at("type").get<std::string>()};
  if (precision.type != "fp32" && precision.type != "fp64" && precision.type != "bf16") {
    throw core::ConfigError(fmt::format(
        "{}: precision.type = \"{}\" is none that a run computes in. Set it to fp32, bf16 or fp64, "
        "or delete \"precision\" to decide anew.",
        path.string(), precision.type));
  }
  if (json.contains("measured_flops")) {
    precision.fp32_flops = json.at("measured_flops").at("fp32").get<double>();
    precision.bf16_flops = json.at("measured_flops").at("bf16").get<double>();
  }
  return precision;
}

}  // namespace

core::Json to_json(const Plan& plan) {
  core::Json json;
  json["version"] = kVersion;
  json["layout"] = mesh::to_json(plan.layout);
  if (plan.bucket_bytes) json["buckets"] = {{"bytes", *plan.bucket_bytes}};
  if (plan.keep_gathered) json["gathers"] = {{"once_a_step", *plan.keep_gathered}};
  if (plan.precision) json["precision"] = precision_to_json(*plan.precision);
  if (plan.collectives) json["collectives"] = core::Json::parse(plan.collectives->json());
  return json;
}

void write_plan(const std::filesystem::path& path, const Plan& plan) {
  core::write_file_atomically(path, to_json(plan).dump(2) + "\n");
}

Plan read_plan(const std::filesystem::path& path) {
  try {
    const core::Json json = core::Json::parse(core::read_file(path));
    if (json.at("version") != kVersion) {
      throw core::ConfigError(fmt::format(
          "{} has version {}, this tutti reads version {}. Delete the file to decide anew.",
          path.string(), json.at("version").dump(), kVersion));
    }
    Plan plan;
    plan.layout = mesh::layout_from_json(json.at("layout"));
    if (json.contains("buckets"))
      plan.bucket_bytes = json.at("buckets").at("bytes").get<std::int64_t>();
    if (json.contains("gathers"))
      plan.keep_gathered = json.at("gathers").at("once_a_step").get<bool>();
    if (json.contains("precision"))
      plan.precision = precision_from_json(json.at("precision"), path);
    if (json.contains("collectives"))
      plan.collectives = comm::ChoiceTable::parse(json.at("collectives").dump());
    return plan;
  } catch (const core::Json::exception& error) {
    throw core::ConfigError(fmt::format("{} is not a plan: {}. Delete the file to decide anew.",
                                        path.string(), error.what()));
  }
}

}  // namespace tutti::train
