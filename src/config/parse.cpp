// Every key of the text and every override goes through the same row of the table; all problems are
// collected.
#include "config/parse.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <toml++/toml.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>

#include "config/key.h"
#include "config/toml_text.h"
#include "core/error.h"
#include "core/suggest.h"

namespace tutti::config {
namespace {

/// A table whose only key `value` is the given text read as TOML; empty if it is none.
std::optional<toml::table> toml_value(std::string_view text) {
  try {
    toml::table table = toml::parse(fmt::format("value = {}", text));
    if (table.size() == 1 && table.contains("value")) return table;
  } catch (const toml::parse_error&) {
    // An override need not be TOML: its caller decides what it is then.
  }
  return std::nullopt;
}

using Entry = std::pair<std::string_view, const toml::node*>;

/// toml++ sorts by name; messages follow the file.
std::vector<Entry> in_file_order(const toml::table& table) {
  std::vector<Entry> entries;
  for (const auto& [name, value] : table) entries.emplace_back(name.str(), &value);
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return a.second->source().begin < b.second->source().begin;
  });
  return entries;
}

class Reader {
 public:
  Reader(std::string_view file, For purpose)
      : file_(file), keys_(purpose == For::Planning ? planning_keys() : all_keys()) {}

  void read_text(std::string_view text);
  void read_override(const std::string& text);
  RunConfig finish() && {
    core::throw_if_any(std::move(problems_));
    return std::move(config_);
  }

 private:
  void read_section(std::string_view section, const toml::table& table);
  void read_key(const std::string& where, std::string_view section, std::string_view name,
                const toml::node& value);
  [[nodiscard]] const Key* find(std::string_view section, std::string_view name) const;
  [[nodiscard]] bool is_section(std::string_view name) const;
  [[nodiscard]] std::string unknown_section(std::string_view name) const;
  [[nodiscard]] std::string unknown_key(std::string_view section, std::string_view name) const;
  [[nodiscard]] std::string at(const toml::source_region& source) const {
    return fmt::format("{}:{}: ", file_, source.begin.line);
  }
  void report(const std::string& where, const std::string& text) {
    problems_.push_back({where + text});
  }

  std::string file_;
  std::vector<Key> keys_;
  RunConfig config_;
  std::vector<core::Problem> problems_;
};

const Key* Reader::find(std::string_view section, std::string_view name) const {
  const auto found = std::find_if(keys_.begin(), keys_.end(), [&](const Key& key) {
    return key.section == section && key.name == name;
  });
  return found == keys_.end() ? nullptr : &*found;
}

bool Reader::is_section(std::string_view name) const {
  return std::any_of(keys_.begin(), keys_.end(),
                     [&](const Key& key) { return key.section == name; });
}

std::string Reader::unknown_section(std::string_view name) const {
  std::vector<std::string> sections;
  for (const Key& key : keys_) {
    if (sections.empty() || sections.back() != key.section) sections.emplace_back(key.section);
  }
  const std::string near = core::nearest(name, sections);
  return near.empty()
             ? fmt::format("the config has no section [{}]: its sections are [{}].", name,
                           fmt::join(sections, "], ["))
             : fmt::format("the config has no section [{}]. Did you mean [{}]?", name, near);
}

std::string Reader::unknown_key(std::string_view section, std::string_view name) const {
  std::vector<std::string> siblings;
  std::vector<std::string> homes;
  for (const Key& key : keys_) {
    if (key.section == section) siblings.emplace_back(key.name);
    if (key.name == name) homes.emplace_back(key.section);
  }
  const std::string what = fmt::format("[{}] has no key {}", section, name);
  if (!homes.empty())
    return fmt::format("{}: it belongs to [{}].", what, fmt::join(homes, "] or ["));
  const std::string near = core::nearest(name, siblings);
  return near.empty() ? fmt::format("{}: its keys are {}.", what, fmt::join(siblings, ", "))
                      : fmt::format("{}. Did you mean {}?", what, near);
}

void Reader::read_key(const std::string& where, std::string_view section, std::string_view name,
                      const toml::node& value) {
  const Key* key = find(section, name);
  if (key == nullptr) return report(where, unknown_key(section, name));
  if (const Complaint complaint = key->kind.read(key->name, value, config_)) {
    report(where, fmt::format("[{}] {} = {} {} ({} means: {})", section, name, shown(value),
                              *complaint, name, key->comment));
  }
}

void Reader::read_section(std::string_view section, const toml::table& table) {
  for (const auto& [name, value] : in_file_order(table))
    read_key(at(value->source()), section, name, *value);
}

void Reader::read_text(std::string_view text) {
  toml::table root;
  try {
    root = toml::parse(text);
  } catch (const toml::parse_error& error) {
    return report(at(error.source()), fmt::format("this is not TOML: {}.", error.description()));
  }
  for (const auto& [name, node] : in_file_order(root)) {
    const std::string where = at(node->source());
    if (const auto* table = node->as_table(); table != nullptr && is_section(name)) {
      read_section(name, *table);
    } else if (is_section(name)) {
      report(where, fmt::format("{} is a section: write [{}] and its keys below it.", name, name));
    } else if (node->is_table()) {
      report(where, unknown_section(name));
    } else {
      report(where, fmt::format("{} stands outside of every section: write it below its section's "
                                "name, like steps = 100 below [run].",
                                name));
    }
  }
}

void Reader::read_override(const std::string& text) {
  const std::string where = fmt::format("override {}: ", text);
  const std::size_t equals = text.find('=');
  const std::size_t dot = text.find('.');
  if (equals == std::string::npos || dot == std::string::npos || dot > equals || dot == 0 ||
      dot + 1 == equals) {
    return report(where, "an override is section.key=value, like optim.lr=3e-4.");
  }
  const std::string section = text.substr(0, dot);
  const std::string name = text.substr(dot + 1, equals - dot - 1);
  const std::string value = text.substr(equals + 1);
  if (!is_section(section)) return report(where, unknown_section(section));
  const Key* key = find(section, name);
  if (key == nullptr) return report(where, unknown_key(section, name));

  const BareText bare = key->kind.bare_text;  // shells eat quotes, so text may come without
  if (const auto node = toml_value(value)) {
    RunConfig ignored;
    const bool fits = !key->kind.read(name, *node->get("value"), ignored);
    if (fits || bare != BareText::Always) {
      return read_key(where, section, name, *node->get("value"));
    }
  }
  const auto as_text = bare == BareText::Never ? std::nullopt : toml_value(toml_string(value));
  if (!as_text) return report(where, fmt::format("{} is no value that TOML knows.", value));
  read_key(where, section, name, *as_text->get("value"));
}

}  // namespace

RunConfig parse(std::string_view toml, std::string_view name,
                std::span<const std::string> overrides, For purpose) {
  Reader reader(name, purpose);
  reader.read_text(toml);
  for (const std::string& text : overrides) reader.read_override(text);
  return std::move(reader).finish();
}

RunConfig load(const std::filesystem::path& path, std::span<const std::string> overrides,
               For purpose) {
  std::error_code ignored;
  std::ifstream file(path, std::ios::binary);
  if (!file || std::filesystem::is_directory(path, ignored)) {
    throw core::ConfigError(fmt::format(
        "The config {} cannot be read ({}). Give the path of a TOML file, like examples/tiny.toml.",
        path.string(), file ? "it is a folder" : std::strerror(errno)));
  }
  std::ostringstream text;
  text << file.rdbuf();
  return parse(text.str(), path.string(), overrides, purpose);
}

}  // namespace tutti::config
