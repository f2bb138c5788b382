// GPT-2's tokenizer: the scanner's pieces, merged.
#pragma once

#include <filesystem>
#include <memory>

#include "data/tokenizer.h"

namespace tutti::data {

/// What every file of GPT-2's ids names as its tokenizer.
TokenizerId gpt2_id();

/// From GPT-2's vocabulary in `folder`. Throws as make_tokenizer. "<|endoftext|>" in a text is
/// ordinary text; its id 50,256 decodes to that name.
std::unique_ptr<Tokenizer> read_gpt2(const std::filesystem::path& folder);

/// From its description(). Throws core::ConfigError without a path if that is damaged.
std::unique_ptr<Tokenizer> gpt2_from(const core::Json& description);

}  // namespace tutti::data
