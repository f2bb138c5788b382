// The header of llm.c's token files. Internal to data.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>

#include "data/token_file.h"

namespace tutti::data {

/// 256 numbers of 32 bits.
inline constexpr std::size_t kLlmCHeaderBytes = 1024;

/// Whether the bytes begin with the mark of one of llm.c's token files, GPT-2's or Llama 3's.
bool is_llm_c(std::span<const std::byte> bytes);

/// What the header of such a file says. Throws core::ConfigError naming path, field, expected and
/// found: another version, Llama 3's tokens, no tokens, a size that does not fit their number.
TokenHeader check_llm_c_header(const std::filesystem::path& path, std::span<const std::byte> bytes);

}  // namespace tutti::data
