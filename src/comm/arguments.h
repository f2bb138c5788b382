// What a caller may pass to a collective. Each check throws std::invalid_argument that names the
// value and the rule.
#pragma once

#include <cstddef>

#include "comm/collective.h"

namespace tutti::comm {

void check_op(DType dtype, Reduce reduce);
/// That it is there, aligned to its elements, and no larger than an address space.
void check_buffer(const ConstBuffer& buffer, const char* which);
/// Both buffers and that they are of one type.
void check_pair(const ConstBuffer& out, const ConstBuffer& in);
/// A buffer that holds one rank's `expected` elements from `begin` of `whole`: separate from it, or
/// exactly there.
void check_share(const ConstBuffer& own, const ConstBuffer& whole, std::size_t begin,
                 std::size_t expected);
void check_apart(const ConstBuffer& out, const ConstBuffer& in);
void check_root(int root, int ranks);
/// The root must bring as many elements as the counts say; what others bring does not matter.
void check_root_buffer(const ConstBuffer& whole, bool is_root, std::size_t expected,
                       const char* which);
void check_partner(const char* what, int peer, int rank, int ranks, int tag);

}  // namespace tutti::comm
