// Hosts made by hand, and this one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "core/error.h"
#include "core/temporary_folder.h"
#include "topology/binding.h"
#include "topology/cluster.h"
#include "topology/discover.h"
#include "topology/proc.h"

namespace tutti::topology {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

/// Two sockets with three cores each and two hardware threads per core, numbered as Linux does:
/// 0-5, then 6-11.
Host two_sockets() {
  Host host{.name = "h",
            .boot_id = "b",
            .processor = "p",
            .numa = {{0, 100}, {1, 200}},
            .caches = {{3, 32, 2}}};
  for (int core = 0; core < 6; ++core) host.cores.push_back({{core, core + 6}, core / 3});
  host.memory_total_bytes = 300;
  host.memory_available_bytes = 250;
  return host;
}

TEST(Binding, OneRankGetsEverything) {
  const Binding binding = assign(two_sockets(), 1, "core");
  EXPECT_THAT(binding.cpus, ElementsAre(ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11)));
  EXPECT_EQ(binding.threads, 6);
  EXPECT_FALSE(binding.shared);
}

TEST(Binding, RanksGetNeighbouringWholeCores) {
  const Binding two = assign(two_sockets(), 2, "core");
  EXPECT_THAT(two.cpus,
              ElementsAre(ElementsAre(0, 1, 2, 6, 7, 8), ElementsAre(3, 4, 5, 9, 10, 11)));
  EXPECT_EQ(two.threads, 3);
}

TEST(Binding, UnevenCoresAreDealtOutWhollyAndThreadsAreEqual) {
  for (const int ranks : {1, 2, 3, 4, 5, 6}) {
    const Binding binding = assign(two_sockets(), ranks, "core");
    std::multiset<int> all;
    for (const auto& cpus : binding.cpus) {
      EXPECT_GE(cpus.size(), 2U * static_cast<unsigned>(binding.threads));
      all.insert(cpus.begin(), cpus.end());
    }
    EXPECT_EQ(all.size(), 12U) << ranks;
    EXPECT_EQ(std::set<int>(all.begin(), all.end()).size(), 12U) << ranks;
    EXPECT_EQ(binding.threads, 6 / ranks);
  }
}

TEST(Binding, MoreRanksThanCoresUseHardwareThreadsThenShare) {
  const Binding threads = assign(two_sockets(), 12, "core");
  std::set<int> all;
  for (const auto& cpus : threads.cpus) {
    EXPECT_EQ(cpus.size(), 1U);
    all.insert(cpus.begin(), cpus.end());
  }
  EXPECT_EQ(all.size(), 12U);
  EXPECT_FALSE(threads.shared);
  const Binding shared = assign(two_sockets(), 13, "core");
  EXPECT_TRUE(shared.shared);
  EXPECT_EQ(shared.threads, 1);
  EXPECT_EQ(shared.cpus[12], shared.cpus[0]);
}

TEST(Binding, NumaGivesWholeNodes) {
  const Binding binding = assign(two_sockets(), 4, "numa");
  EXPECT_EQ(binding.cpus[0], binding.cpus[1]);
  EXPECT_EQ(binding.cpus[2], binding.cpus[3]);
  EXPECT_THAT(binding.cpus[0], ElementsAre(0, 1, 2, 6, 7, 8));
  EXPECT_THAT(binding.cpus[3], ElementsAre(3, 4, 5, 9, 10, 11));
  EXPECT_EQ(binding.threads, 1);
}

TEST(Binding, NoneSetsNoMasks) {
  EXPECT_THAT(assign(two_sockets(), 2, "none").cpus, ElementsAre(IsEmpty(), IsEmpty()));
}

TEST(Binding, RefusesWhatCannotBe) {
  EXPECT_THROW(assign(two_sockets(), 0, "core"), std::invalid_argument);
  EXPECT_THROW(assign(Host{}, 1, "core"), std::invalid_argument);
  EXPECT_THROW(assign(two_sockets(), 1, "socket"), std::invalid_argument);
}

TEST(Cluster, SurvivesJson) {
  const Cluster cluster{{two_sockets(), Host{.name = "other"}}};
  EXPECT_EQ(cluster_from_json(core::Json::parse(to_json(cluster).dump())), cluster);
  EXPECT_THROW(cluster_from_json(core::Json::object()), core::ConfigError);
  core::Json wrong = to_json(cluster);
  wrong["hosts"][0]["cores"][0]["numa"] = "zero";
  EXPECT_THROW(cluster_from_json(wrong), core::ConfigError);
}

TEST(Discover, FindsTheCpusThatThisProcessMayUse) {
  const Host host = discover();
  cpu_set_t mask;
  ASSERT_EQ(sched_getaffinity(0, sizeof mask, &mask), 0);
  int found = 0;
  for (const Core& core : host.cores) {
    for (const int cpu : core.cpus) {
      EXPECT_TRUE(CPU_ISSET(cpu, &mask)) << cpu;
      ++found;
    }
  }
  EXPECT_EQ(found, CPU_COUNT(&mask));
  EXPECT_GT(host.memory_available_bytes, 0U);
  EXPECT_LE(host.memory_available_bytes, host.memory_total_bytes);
}

TEST(Discover, OwnMaskNarrowsTheCores) {
  cpu_set_t before;
  ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
  const int cpu = discover().cores.back().cpus.back();
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(cpu, &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
  const Host host = discover();
  ASSERT_EQ(sched_setaffinity(0, sizeof before, &before), 0);
  ASSERT_EQ(host.cores.size(), 1U);
  EXPECT_THAT(host.cores[0].cpus, ElementsAre(cpu));
}

/// A root folder with the kernel's files as a test wants them.
class Kernel : public testing::Test {
 protected:
  Kernel() { file("proc/meminfo", "MemTotal:  1000 kB\nMemFree: 1 kB\nMemAvailable:  800 kB\n"); }
  void file(const std::string& path, const std::string& text) const {
    std::filesystem::create_directories(std::filesystem::path(root_ + path).parent_path());
    std::ofstream(root_ + path) << text;
  }
  core::TemporaryFolder temporary_{"kernel"};
  std::string root_ = temporary_.path().string() + "/";
};

TEST_F(Kernel, MemoryIsThatOfTheHostWithoutALimit) {
  file("proc/self/cgroup", "0::/job\n");
  file("sys/fs/cgroup/job/memory.max", "max\n");
  EXPECT_EQ(memory_of_host(root_).total_bytes, 1000U * 1024);
  EXPECT_EQ(memory_of_host(root_).available_bytes, 800U * 1024);
}

TEST_F(Kernel, AParentsLimitBindsToo) {
  file("proc/self/cgroup", "0::/box/job\n");
  file("sys/fs/cgroup/box/job/memory.max", "max\n");
  file("sys/fs/cgroup/box/memory.max", "500000\n");
  file("sys/fs/cgroup/box/memory.current", "100000\n");
  EXPECT_EQ(memory_of_host(root_).total_bytes, 500000U);
  EXPECT_EQ(memory_of_host(root_).available_bytes, 400000U);
}

TEST_F(Kernel, VersionOneOfControlGroupsIsReadToo) {
  file("proc/self/cgroup", "4:memory:/job\n0::/\n");
  file("sys/fs/cgroup/memory/job/memory.limit_in_bytes", "300000\n");
  file("sys/fs/cgroup/memory/job/memory.usage_in_bytes",
       "400000\n");  // over its limit: nothing is left
  file("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_EQ(memory_of_host(root_).total_bytes, 300000U);
  EXPECT_EQ(memory_of_host(root_).available_bytes, 0U);
}

TEST_F(Kernel, NamesProcessorAndBoot) {
  file("proc/cpuinfo", "processor\t: 0\nmodel name\t: Fast CPU 9\n");
  file("proc/sys/kernel/random/boot_id", "abc\n");
  EXPECT_EQ(processor_name(root_), "Fast CPU 9");
  EXPECT_EQ(boot_id(root_), "abc");
}

}  // namespace
}  // namespace tutti::topology
