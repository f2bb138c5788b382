// Checks before ranks build a replica together, and who shares out what with whom.
#include "api/replica_groups.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "core/error.h"
#include "core/lines.h"

namespace tutti {
namespace {

void check(const ReplicaOptions& options, int ranks) {
  if (options.zero < 0 || options.zero > 3) {
    throw core::ConfigError(fmt::format(
        "ReplicaOptions::zero = {} is no stage: 0 shares out nothing, 1 the optimizer's state, 2 "
        "gradients too, 3 parameters too.",
        options.zero));
  }
  const int shard = options.zero_shard;
  if (shard < 0 || (shard > 0 && ranks % shard != 0)) {
    throw core::ConfigError(
        fmt::format("ReplicaOptions::zero_shard = {} does not divide the group's {} ranks: shard "
                    "groups are equal. Set it to a divisor, or to 0 for all ranks.",
                    shard, ranks));
  }
  if (shard > 0 && options.zero == 0) {
    throw core::ConfigError(
        fmt::format("ReplicaOptions::zero_shard = {} with zero = 0: there is nothing that a shard "
                    "group could share out. Set zero to 1, 2 or 3, or zero_shard to 0.",
                    shard));
  }
}

// Without blocks there is nobody to say when parameters are about to be read.
bool shares_pages(const backend::Group& group) {
  for (int peer = 0; peer < group.size(); ++peer) {
    if (peer != group.rank() && !group.shares_pages_with(peer)) return false;
  }
  return true;
}

void check_blocks(const ReplicaOptions& options, bool in_blocks, const backend::Group& group) {
  if (options.zero < 3 || in_blocks || group.size() == 1) return;
  if (options.share_pages && shares_pages(group)) return;
  throw core::ConfigError(
      "zero = 3 with private shards gathers parameters block by block, and this module has no "
      "blocks that tutti can see: C++ modules have no hooks. Give a torch::nn::Sequential, or "
      "share_pages = true on one host, or use zero = 2.");
}

// Neighbours share out a copy; those with the same place among their neighbours hold the same
// share.
parallel::ReplicaGroups groups_of(const Group::State& all, int shard) {
  const int rank = all.group.rank();
  if (shard == 0 || shard == all.group.size()) return {.shards = all.group, .gathers = all.gathers};
  std::vector<int> shards, copies;
  for (int r = 0; r < all.group.size(); ++r) {
    if (r / shard == rank / shard) shards.push_back(all.ranks[r]);
    if (r % shard == rank % shard) copies.push_back(all.ranks[r]);
  }
  const std::string name = fmt::format("{} shards {}", all.group.name(), rank / shard);
  const std::string of_copies = fmt::format("{} copies {}", all.group.name(), rank % shard);
  return {.shards = backend::Group(all.world->group(name, shards)),
          .copies = backend::Group(all.world->group(of_copies, copies)),
          .gathers = backend::Group(all.world->group(name + " parameters", shards))};
}

std::vector<std::string> lines_of(const ModuleParams& module, const ReplicaOptions& options) {
  std::vector<std::string> lines = lines_of(module);
  lines.push_back(fmt::format("zero = {}, zero_shard = {}, share_pages = {}, bucket_bytes = {}",
                              options.zero, options.zero_shard, options.share_pages,
                              options.bucket_bytes));
  return lines;
}

// Ends every rank of the group if one has another module or other options than rank 0.
void check_alike(backend::Group& group, const std::vector<std::string>& lines) {
  const std::string own = fmt::format("{}", fmt::join(lines, "\n"));
  const at::Tensor length = at::tensor({static_cast<std::int64_t>(own.size())}, at::kLong);
  group.broadcast(length, 0, "length of the list of parameters").wait();
  const auto bytes = length.item<std::int64_t>();
  const at::Tensor text = at::zeros({bytes}, at::kByte);
  if (group.rank() == 0) std::copy(own.begin(), own.end(), text.data_ptr<std::uint8_t>());
  if (bytes > 0) group.broadcast(text, 0, "list of parameters").wait();
  const std::string of_rank_0(reinterpret_cast<const char*>(text.data_ptr<std::uint8_t>()),
                              static_cast<std::size_t>(bytes));
  const auto differs = core::first_difference(lines, core::split_lines(of_rank_0));
  const at::Tensor who = at::full({1}, differs ? group.rank() : 0, at::kLong);
  group.all_reduce(who, backend::ReduceOp::Max, "whether modules differ").wait();
  if (differs) {
    throw core::ConfigError(
        fmt::format("rank {} has \"{}\", rank 0 has \"{}\": replicas are copies of one module. "
                    "Build it with the same sizes and options on every rank.",
                    group.rank(), differs->first, differs->second));
  }
  if (const auto culprit = who.item<std::int64_t>(); culprit > 0) {
    throw core::ConfigError(fmt::format(
        "rank {} has another module or other options than rank 0: its own error says where they "
        "part.",
        culprit));
  }
}

}  // namespace

parallel::ReplicaGroups replica_groups(const Group::State& all, const ModuleParams& module,
                                       bool in_blocks, const ReplicaOptions& options) {
  check(options, all.group.size());
  backend::Group group = all.group;
  check_alike(group, lines_of(module, options));
  const parallel::ReplicaGroups groups = groups_of(all, options.zero_shard);
  check_blocks(options, in_blocks, groups.shards);
  return groups;
}

}  // namespace tutti
