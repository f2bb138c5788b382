// Values as TOML text: what print() writes and messages quote.
#pragma once

#include <toml++/toml.h>

#include <string>
#include <string_view>

namespace tutti::config {

/// A TOML string with quotes and escapes.
std::string toml_string(std::string_view text);

/// The shortest decimal that reads back as the same bits, always with a point or an exponent.
std::string toml_number(double value);

/// The value on one line, as in a message: `"four"`, `[0.9, 1.5]`; a table becomes `{...}`.
std::string shown(const toml::node& node);

}  // namespace tutti::config
