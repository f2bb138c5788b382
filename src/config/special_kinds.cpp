// The few keys with a grammar of their own: files of tokens, the held-out share, pipeline orders,
// dp.
#include <fmt/format.h>

#include "config/key.h"
#include "config/toml_text.h"

namespace tutti::config {
namespace {

/// One entry of [data] train: a path, or a table of path and weight. False if it is neither.
bool read_train_file(const toml::node& node, data::DataOptions& data) {
  if (const auto* path = node.as_string()) {
    data.train.push_back(path->get());
    return !path->get().empty();
  }
  const auto* table = node.as_table();
  if (table == nullptr || table->size() != 2) return false;
  const auto path = table->get_as<std::string>("path");
  const auto* weight = table->get("weight");
  if (path == nullptr || path->get().empty() || weight == nullptr || !weight->is_number()) {
    return false;
  }
  const double value = weight->value<double>().value_or(0);
  if (!(value > 0 && value < 1e30)) return false;
  data.train.push_back(path->get());
  data.weights.push_back(value);
  return true;
}

Complaint read_train(std::string_view, const toml::node& node, RunConfig& config) {
  const std::string rule =
      "is neither a token file (\"data/x.tokens\") nor a list of such files, nor a list of "
      "{path = \"data/x.tokens\", weight = 1.0} with weights above 0, all of one form.";
  data::DataOptions read;
  if (const auto* list = node.as_array()) {
    for (const toml::node& item : *list) {
      if (!read_train_file(item, read)) return rule;
    }
  } else if (!node.is_string() || !read_train_file(node, read)) {
    return rule;
  }
  if (!read.weights.empty() && read.weights.size() != read.train.size()) return rule;
  config.data.train = std::move(read.train);
  config.data.weights = std::move(read.weights);
  return std::nullopt;
}

std::optional<std::string> write_train(const RunConfig& config) {
  const data::DataOptions& data = config.data;
  if (data.train.size() == 1 && data.weights.empty()) return toml_string(data.train.front());
  std::string text;
  for (std::size_t i = 0; i < data.train.size(); ++i) {
    if (i > 0) text += ", ";
    text += data.weights.empty()
                ? toml_string(data.train[i])
                : fmt::format("{{path = {}, weight = {}}}", toml_string(data.train[i]),
                              toml_number(data.weights[i]));
  }
  return "[" + text + "]";
}

Complaint read_valid(std::string_view, const toml::node& node, RunConfig& config) {
  if (const auto* file = node.as_string(); file != nullptr && !file->get().empty()) {
    config.data.valid = 0;
    config.data.valid_file = file->get();
    return std::nullopt;
  }
  const auto share = node.is_number() ? node.value<double>() : std::nullopt;
  if (!share || !(*share >= 0 && *share < 1)) {
    return "is neither a share of at least 0 and below 1 nor a token file (\"data/valid.tokens\").";
  }
  config.data.valid = *share;
  config.data.valid_file.clear();
  return std::nullopt;
}

std::optional<std::string> write_valid(const RunConfig& config) {
  const data::DataOptions& data = config.data;
  return data.valid_file.empty() ? toml_number(data.valid) : toml_string(data.valid_file);
}

}  // namespace

Kind train_files() { return {read_train, write_train, BareText::IfNotToml}; }

Kind valid_share() { return {read_valid, write_valid, BareText::IfNotToml}; }

Kind pipeline_order() {
  const std::string part = "pipeline parallelism";
  std::vector<NotBuilt> later;
  for (const char* name : {"gpipe", "interleaved", "zb-h1", "zb-h2", "zb-v", "zb-auto"}) {
    later.push_back({name, part});
  }
  const auto field = config::field(&RunConfig::parallel, &parallel::ParallelOptions::schedule);
  Kind kind = choice(field, {"1f1b"}, std::move(later));
  kind.read = [names = kind.read, part](std::string_view key, const toml::node& node,
                                        RunConfig& config) -> Complaint {
    const auto* value = node.as_string();
    if (value != nullptr && value->get().ends_with(".csv")) {
      return fmt::format("needs {}, which is not built yet: set {} = \"1f1b\".", part, key);
    }
    return names(key, node, config);
  };
  return kind;
}

Kind pipeline_split() {
  const auto field = config::field(&RunConfig::parallel, &parallel::ParallelOptions::split);
  Kind kind = choice(field, {"auto"});
  kind.bare_text = BareText::IfNotToml;  // a list is a list
  kind.read = [names = kind.read](std::string_view key, const toml::node& node,
                                  RunConfig& config) -> Complaint {
    if (node.is_array()) {
      return fmt::format("needs pipeline parallelism, which is not built yet: set {} = \"auto\".",
                         key);
    }
    return names(key, node, config);
  };
  return kind;
}

Kind data_ranks() {
  const auto field = config::field(&RunConfig::parallel, &parallel::ParallelOptions::dp);
  Kind kind = whole(field, 1);
  kind.write = [=](const RunConfig& config) -> std::optional<std::string> {
    const int dp = field.view(config);
    if (dp == 0) return std::nullopt;
    return fmt::format("{}", dp);
  };
  return kind;
}

}  // namespace tutti::config
