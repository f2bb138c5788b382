// hwloc's tree -> Host.
#include "topology/discover.h"

#include <hwloc.h>
#include <unistd.h>

#include <algorithm>
#include <memory>

#include "core/error.h"
#include "topology/proc.h"

namespace tutti::topology {
namespace {

using Tree = std::unique_ptr<hwloc_topology, decltype(&hwloc_topology_destroy)>;

Tree load_tree() {
  hwloc_topology_t raw = nullptr;
  if (hwloc_topology_init(&raw) != 0) core::throw_errno("hwloc_topology_init");
  Tree tree(raw, hwloc_topology_destroy);
  // By default the tree holds only the CPUs that the control group allows; the process's own mask
  // is applied below.
  if (hwloc_topology_load(raw) != 0) core::throw_errno("hwloc_topology_load");
  return tree;
}

struct BitmapFree {
  void operator()(hwloc_bitmap_s* set) const { hwloc_bitmap_free(set); }
};
using Bitmap = std::unique_ptr<hwloc_bitmap_s, BitmapFree>;

/// The CPUs of this process's mask; the whole machine where masks do not exist.
Bitmap allowed_cpus(hwloc_topology_t tree) {
  Bitmap allowed(hwloc_bitmap_alloc());
  if (hwloc_get_cpubind(tree, allowed.get(), HWLOC_CPUBIND_PROCESS) != 0) {
    hwloc_bitmap_copy(allowed.get(), hwloc_topology_get_allowed_cpuset(tree));
  }
  return allowed;
}

int numa_of(hwloc_topology_t tree, hwloc_obj_t core) {
  hwloc_obj_t node = nullptr;
  while ((node = hwloc_get_next_obj_by_type(tree, HWLOC_OBJ_NUMANODE, node)) != nullptr) {
    if (hwloc_bitmap_intersects(node->cpuset, core->cpuset))
      return static_cast<int>(node->logical_index);
  }
  return 0;
}

std::vector<Core> cores_of(hwloc_topology_t tree, hwloc_bitmap_t allowed) {
  std::vector<Core> cores;
  // Some virtual machines show no cores, only processing units; one unit is then one core.
  const auto type =
      hwloc_get_nbobjs_by_type(tree, HWLOC_OBJ_CORE) > 0 ? HWLOC_OBJ_CORE : HWLOC_OBJ_PU;
  hwloc_obj_t object = nullptr;
  while ((object = hwloc_get_next_obj_by_type(tree, type, object)) != nullptr) {
    const Bitmap usable(hwloc_bitmap_alloc());
    hwloc_bitmap_and(usable.get(), object->cpuset, allowed);
    Core core;
    for (int cpu = hwloc_bitmap_first(usable.get()); cpu >= 0;
         cpu = hwloc_bitmap_next(usable.get(), cpu)) {
      core.cpus.push_back(cpu);
    }
    if (core.cpus.empty()) continue;
    core.numa = numa_of(tree, object);
    cores.push_back(std::move(core));
  }
  std::stable_sort(cores.begin(), cores.end(),
                   [](const Core& a, const Core& b) { return a.numa < b.numa; });
  return cores;
}

std::vector<NumaNode> numa_nodes(hwloc_topology_t tree) {
  std::vector<NumaNode> nodes;
  hwloc_obj_t node = nullptr;
  while ((node = hwloc_get_next_obj_by_type(tree, HWLOC_OBJ_NUMANODE, node)) != nullptr) {
    nodes.push_back({static_cast<int>(node->os_index), node->attr->numanode.local_memory});
  }
  return nodes;
}

std::vector<Cache> caches_of(hwloc_topology_t tree, hwloc_bitmap_t allowed) {
  std::vector<Cache> caches;
  const hwloc_obj_type_t levels[] = {HWLOC_OBJ_L1CACHE, HWLOC_OBJ_L2CACHE, HWLOC_OBJ_L3CACHE};
  for (int level = 1; level <= 3; ++level) {
    Cache cache{.level = level, .bytes = 0, .instances = 0};
    hwloc_obj_t object = nullptr;
    while ((object = hwloc_get_next_obj_by_type(tree, levels[level - 1], object)) != nullptr) {
      if (!hwloc_bitmap_intersects(object->cpuset, allowed)) continue;
      cache.bytes = object->attr->cache.size;
      ++cache.instances;
    }
    if (cache.instances > 0) caches.push_back(cache);
  }
  return caches;
}

std::string host_name() {
  char name[256] = {};
  return ::gethostname(name, sizeof name - 1) == 0 ? name : "localhost";
}

}  // namespace

Host discover() {
  const Tree tree = load_tree();
  const Bitmap allowed = allowed_cpus(tree.get());
  const Memory memory = memory_of_host();
  return Host{.name = host_name(),
              .boot_id = boot_id(),
              .processor = processor_name(),
              .cores = cores_of(tree.get(), allowed.get()),
              .numa = numa_nodes(tree.get()),
              .caches = caches_of(tree.get(), allowed.get()),
              .memory_total_bytes = memory.total_bytes,
              .memory_available_bytes = memory.available_bytes};
}

}  // namespace tutti::topology
