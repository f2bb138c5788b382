// Where control memory lies in this process: for tests that damage it as a stray pointer would.
#pragma once

#include <cstddef>
#include <cstdint>
#include <fstream>
#include <map>
#include <memory>
#include <new>
#include <sstream>
#include <string>

#include "comm/control.h"

namespace tutti::comm::testing {

/// A view of control memory that somebody else has mapped and keeps.
class BorrowedBlock {
 public:
  BorrowedBlock(std::byte* data, int ranks, int credits)
      : mapping_(new (storage_) Mapping(data, ControlBlock::bytes(ranks, credits)),
                 [](Mapping*) {}),  // never destroyed: it would unmap
        block_(mapping_, ranks, credits) {}
  BorrowedBlock(const BorrowedBlock&) = delete;
  BorrowedBlock& operator=(const BorrowedBlock&) = delete;
  const ControlBlock* operator->() const { return &block_; }

 private:
  alignas(Mapping) std::byte storage_[sizeof(Mapping)];
  std::shared_ptr<Mapping> mapping_;
  ControlBlock block_;
};

/// The blocks that are mapped now, by inode (two of one size may lie side by side).
inline std::map<std::uint64_t, std::byte*> control_blocks() {
  std::map<std::uint64_t, std::byte*> blocks;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    if (line.find("/memfd:tutti-control") == std::string::npos) continue;
    std::istringstream words(line);
    std::string range, rights, offset, device;
    std::uint64_t inode = 0;
    words >> range >> rights >> offset >> device >> inode;
    const auto begin = std::stoull(range.substr(0, range.find('-')), nullptr, 16);
    blocks.emplace(inode, reinterpret_cast<std::byte*>(begin));
  }
  return blocks;
}

/// The one that is in `now` and was not `before`; null unless it is just one.
inline std::byte* new_block(const std::map<std::uint64_t, std::byte*>& before,
                            const std::map<std::uint64_t, std::byte*>& now) {
  std::byte* found = nullptr;
  for (const auto& [inode, data] : now) {
    if (before.contains(inode)) continue;
    if (found != nullptr) return nullptr;
    found = data;
  }
  return found;
}

}  // namespace tutti::comm::testing
