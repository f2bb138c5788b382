// The header of a token file as bytes: the one place that knows the offsets. Internal to data.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "data/token_file.h"

namespace tutti::data::format {

static_assert(std::endian::native == std::endian::little, "token files are mapped as they are");

inline constexpr std::array<char, 8> kMagic = {'T', 'U', 'T', 'T', 'I', 'T', 'O', 'K'};
inline constexpr std::size_t kNameBytes = 40;

/// The header's bytes in memory; token_file.h documents each field.
struct Raw {
  std::array<char, 8> magic = kMagic;
  std::uint32_t version = kTokenFormatVersion;
  std::uint32_t bytes_per_token = 0;
  std::uint64_t vocab_size = 0;
  std::uint64_t num_tokens = 0;
  std::uint64_t num_documents = 0;
  std::uint64_t tokenizer_hash = 0;
  std::uint64_t body_hash = 0;
  std::array<char, kNameBytes> name = {};
  std::array<char, 32> zero = {};
};
static_assert(sizeof(Raw) == kTokenHeaderBytes && offsetof(Raw, vocab_size) == 16 &&
              offsetof(Raw, name) == 56 && offsetof(Raw, zero) == 96);

}  // namespace tutti::data::format
