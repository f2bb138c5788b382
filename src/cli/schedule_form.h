// The forms of `tutti schedule`: a pipeline order by name, --file, --rows, or a collective.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "cli/schedule_collective.h"
#include "cli/schedule_pipeline.h"

namespace tutti::cli {

/// All that can be typed behind `tutti schedule`.
struct ScheduleOptions {
  SchedulePipelineOptions pipeline;
  ScheduleCollectiveOptions collective;
  std::string rows;
};

/// What the three forms about pipelines (NAME, --file, --rows) need and exclude; an unknown NAME is
/// answered with the nearest. Throws core::ConfigError with all problems of one kind.
void check_pipeline_form(const ScheduleOptions& options, const CLI::App& command);

/// The same for a collective, whose name is known.
void check_collective_form(const ScheduleOptions& options, const CLI::App& command);

}  // namespace tutti::cli
