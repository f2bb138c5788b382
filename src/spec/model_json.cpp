// Sizes out and in.
#include "spec/model_json.h"

#include "core/error.h"

namespace tutti::spec {

core::Json model_to_json(const ModelOptions& model, const std::string& optimizer) {
  core::Json json;
  json["kind"] = model.kind;
  json["layers"] = model.layers;
  json["hidden"] = model.hidden;
  json["heads"] = model.heads;
  json["kv_heads"] = model.kv_heads;
  json["ffn"] = model.ffn;
  json["vocab"] = model.vocab;
  json["context"] = model.context;
  json["tied"] = model.tied;
  json["optimizer"] = optimizer;
  return json;
}

ModelOptions model_from_json(const core::Json& json) {
  ModelOptions model;
  try {
    json.at("kind").get_to(model.kind);
    json.at("layers").get_to(model.layers);
    json.at("hidden").get_to(model.hidden);
    json.at("heads").get_to(model.heads);
    json.at("kv_heads").get_to(model.kv_heads);
    json.at("ffn").get_to(model.ffn);
    json.at("vocab").get_to(model.vocab);
    json.at("context").get_to(model.context);
    json.at("tied").get_to(model.tied);
  } catch (const core::Json::exception& error) {
    throw core::ConfigError(fmt::format(
        "The checkpoint's model is not complete: {}. It was not written by tutti train.",
        error.what()));
  }
  return model;
}

}  // namespace tutti::spec
