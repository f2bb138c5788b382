// Ranks meet through the store and connect, pair by pair.
#pragma once

#include <cstdint>
#include <vector>

#include "comm/peers.h"
#include "comm/store.h"
#include "comm/world.h"

namespace tutti::comm {

/// Leaves a card, connects to the ranks of `call` (they listen) and waits for those of `expect`
/// (they call); `peers` has all of them afterwards. Cards of different epochs do not meet. Throws
/// core::PeerError naming who did not come before the deadline, core::RunError for ranks of another
/// host.
void find_peers(Store& store, const WireUpOptions& options, std::uint32_t epoch, Peers& peers,
                const std::vector<int>& call, const std::vector<int>& expect);

}  // namespace tutti::comm
