// What the kernel tells in /proc and /sys and hwloc does not.
#pragma once

#include <string>

#include "topology/discover.h"

namespace tutti::topology {

/// Changes at every boot and is the same in all containers of a host; empty if the kernel hides it.
std::string boot_id(const std::string& root = "/");

/// "AMD EPYC 9V74 80-Core Processor"; empty if /proc/cpuinfo has no such line.
std::string processor_name(const std::string& root = "/");

}  // namespace tutti::topology
