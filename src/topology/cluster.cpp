// Cluster <-> JSON.
#include "topology/cluster.h"

#include <fmt/format.h>

#include "core/error.h"

namespace tutti::topology {
namespace {

using core::Json;

template <class T, class Make>
Json list(const std::vector<T>& items, Make make) {
  Json json = Json::array();
  for (const T& item : items) json.push_back(make(item));
  return json;
}

Json host_to_json(const Host& host) {
  return {
      {"name", host.name},
      {"boot_id", host.boot_id},
      {"processor", host.processor},
      {"cores", list(host.cores,
                     [](const Core& core) {
                       return Json{{"cpus", core.cpus}, {"numa", core.numa}};
                     })},
      {"numa", list(host.numa,
                    [](const NumaNode& node) {
                      return Json{{"os_index", node.os_index}, {"memory_bytes", node.memory_bytes}};
                    })},
      {"caches", list(host.caches,
                      [](const Cache& cache) {
                        return Json{{"level", cache.level},
                                    {"bytes", cache.bytes},
                                    {"instances", cache.instances}};
                      })},
      {"memory_total_bytes", host.memory_total_bytes},
      {"memory_available_bytes", host.memory_available_bytes}};
}

Host host_from_json(const Json& json) {
  Host host;
  json.at("name").get_to(host.name);
  json.at("boot_id").get_to(host.boot_id);
  json.at("processor").get_to(host.processor);
  for (const Json& core : json.at("cores")) {
    host.cores.push_back({core.at("cpus").get<std::vector<int>>(), core.at("numa").get<int>()});
  }
  for (const Json& node : json.at("numa")) {
    host.numa.push_back(
        {node.at("os_index").get<int>(), node.at("memory_bytes").get<std::uint64_t>()});
  }
  for (const Json& cache : json.at("caches")) {
    host.caches.push_back({cache.at("level").get<int>(), cache.at("bytes").get<std::uint64_t>(),
                           cache.at("instances").get<int>()});
  }
  json.at("memory_total_bytes").get_to(host.memory_total_bytes);
  json.at("memory_available_bytes").get_to(host.memory_available_bytes);
  return host;
}

}  // namespace

core::Json to_json(const Cluster& cluster) {
  return {{"hosts", list(cluster.hosts, host_to_json)}};
}

Cluster cluster_from_json(const core::Json& json) {
  try {
    Cluster cluster;
    for (const Json& host : json.at("hosts")) cluster.hosts.push_back(host_from_json(host));
    return cluster;
  } catch (const Json::exception& error) {
    throw core::ConfigError(fmt::format(
        "The description of the cluster is not one of ours: {}. Make it anew.", error.what()));
  }
}

}  // namespace tutti::topology
