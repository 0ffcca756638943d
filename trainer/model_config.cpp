// SPDX-License-Identifier: BSD-3-Clause
#include "trainer/model_config.h"

#include "trainer/json_text.h"
#include "trainer/mapped_file.h"
#include "trainer/text_place.h"

#include <cmath>

namespace dist_train {
namespace {

using Json = nlohmann::json;

// Bounds that keep every product of sizes within 63 bits, far above any real model.
constexpr int64_t kLargestWidth = int64_t(1) << 20;
constexpr int64_t kLargestCount = int64_t(1) << 31;
constexpr int64_t kMostLayers = 10000;

// How the families differ. Defaults are those of their config.json.
struct Family {
  const char* name;                                // model_type
  enum class Bias { none, qkv, flag, flags } bias; // flag: attention_bias; flags: mlp_bias too
  bool qk_norm;
  enum class Window { none, all_layers, some_layers } window;
  int64_t kv_heads; // 0: as many as heads
  int64_t head_dim; // 0: hidden_size / heads
  int64_t max_position_embeddings;
};
constexpr Family kFamilies[] = {
    {"llama", Family::Bias::flags, false, Family::Window::none, 0, 0, 2048},
    {"mistral", Family::Bias::none, false, Family::Window::all_layers, 8, 0, 131072},
    {"qwen2", Family::Bias::qkv, false, Family::Window::some_layers, 32, 0, 32768},
    {"qwen3", Family::Bias::flag, true, Family::Window::some_layers, 32, 128, 32768},
};

// Reads members of one JSON object; the first thing that is wrong is kept in `error`.
class Reader {
public:
  Reader(const std::string& file, const Json& object) : file_(file), object_(object) {}

  int64_t count(const char* name, int64_t largest, std::optional<int64_t> fallback = {},
                int64_t least = 1) {
    const Json* value = find(name, !fallback);
    if (!value)
      return fallback.value_or(least);
    if (!value->is_number_integer() || *value < least || *value > largest) {
      fail(name, *value,
           "a whole number from " + std::to_string(least) + " to " + std::to_string(largest));
      return least;
    }
    return value->get<int64_t>();
  }

  double positive(const char* name, std::optional<double> fallback = {}) {
    const Json* value = find(name, !fallback);
    if (!value)
      return fallback.value_or(1);
    const double number = value->is_number() ? value->get<double>() : -1;
    if (!(number > 0) || !std::isfinite(number)) {
      fail(name, *value, "a number above 0");
      return 1;
    }
    return number;
  }

  bool flag(const char* name, bool fallback) {
    const Json* value = find(name, false);
    if (!value)
      return fallback;
    if (!value->is_boolean()) {
      fail(name, *value, "true or false");
      return fallback;
    }
    return value->get<bool>();
  }

  // "" where the member is missing.
  std::string text(const char* name) {
    const Json* value = find(name, false);
    if (!value)
      return "";
    if (!value->is_string()) {
      fail(name, *value, "a text");
      return "";
    }
    return value->get<std::string>();
  }

  // A member that is missing or null is not there; nullptr.
  const Json* find(const char* name, bool required) {
    const auto found = object_.find(name);
    if (found != object_.end() && !found->is_null())
      return &*found;
    if (required && !error)
      error = Error{file_ + ": no member '" + name + "'",
                    "it is needed to know the model's shape; take the config.json that belongs to "
                    "the weights"};
    return nullptr;
  }

  bool is_null(const char* name) const {
    const auto found = object_.find(name);
    return found != object_.end() && found->is_null();
  }

  void fail(const char* name, const Json& value, const std::string& expected) {
    refuse(std::string(name) + " is " + json_seen(value), "it must be " + expected);
  }

  void refuse(const std::string& what, const std::string& hint) {
    if (!error)
      error = Error{file_ + ": " + what, hint};
  }

  std::optional<Error> error;

private:
  const std::string& file_;
  const Json& object_;
};

// Frequencies of the rotary embedding: "rope_parameters" (newer) or "rope_theta" with
// "rope_scaling".
void read_rope(Reader& reader, const std::string& file, ModelConfig& config) {
  const Json* parameters = reader.find("rope_parameters", false);
  const Json* scaling = parameters ? parameters : reader.find("rope_scaling", false);
  config.rope_theta = reader.positive("rope_theta", 10000.0);
  if (!scaling)
    return;
  if (!scaling->is_object())
    return reader.fail(parameters ? "rope_parameters" : "rope_scaling", *scaling, "an object");
  Reader rope(file, *scaling);
  config.rope_theta = rope.positive("rope_theta", config.rope_theta);
  std::string type = rope.text("rope_type");
  if (type.empty())
    type = rope.text("type");
  if (type == "linear")
    config.rope_factor = rope.positive("factor");
  else if (type == "llama3")
    config.llama3_rope = Llama3Rope{rope.positive("factor"), rope.positive("low_freq_factor"),
                                    rope.positive("high_freq_factor"),
                                    rope.positive("original_max_position_embeddings")};
  else if (!type.empty() && type != "default")
    rope.refuse("rope_type " + quote(type) + " is not supported",
                "supported are default, linear and llama3");
  if (config.llama3_rope &&
      config.llama3_rope->high_freq_factor <= config.llama3_rope->low_freq_factor)
    rope.refuse("high_freq_factor is not above low_freq_factor", "take the model's own values");
  if (rope.error && !reader.error)
    reader.error = rope.error;
}

void read_end_of_text(Reader& reader, ModelConfig& config) {
  const Json* value = reader.find("eos_token_id", true);
  if (!value)
    return;
  const Json& first = value->is_array() && !value->empty() ? value->front() : *value;
  if (!first.is_number_integer() || first < 0 || first >= config.vocab_size)
    return reader.fail("eos_token_id", first, "a token id below vocab_size");
  config.end_of_text = first.get<int32_t>();
}

const Family* find_family(Reader& reader) {
  const std::string type = reader.text("model_type");
  std::string known;
  for (const Family& family : kFamilies) {
    if (type == family.name)
      return &family;
    known += std::string(known.empty() ? "" : ", ") + family.name;
  }
  reader.refuse("model_type " + quote(type) + " is not supported", "supported are " + known);
  return nullptr;
}

void read_biases(Reader& reader, Family::Bias bias, ModelConfig& config) {
  const bool attention = reader.flag("attention_bias", false);
  const bool mlp = reader.flag("mlp_bias", false);
  const bool flagged = bias == Family::Bias::flag || bias == Family::Bias::flags;
  config.qkv_bias = bias == Family::Bias::qkv || (flagged && attention);
  config.attention_out_bias = flagged && attention;
  config.mlp_bias = bias == Family::Bias::flags && mlp;
}

// Which layers attend to a window only: "layer_types" says so, or else "max_window_layers".
void read_windows(Reader& reader, Family::Window kind, ModelConfig& config) {
  config.windows.assign(size_t(config.layers), 0);
  const bool some = kind == Family::Window::some_layers;
  const bool used = !some || reader.flag("use_sliding_window", false);
  if (kind == Family::Window::none)
    return;
  const int64_t window = used && !reader.is_null("sliding_window")
                             ? reader.count("sliding_window", kLargestCount, 4096)
                             : 0;
  const Json* types = some ? reader.find("layer_types", false) : nullptr;
  if (types && (!types->is_array() || int64_t(types->size()) != config.layers))
    return reader.fail("layer_types", *types, "a list of num_hidden_layers types");
  const int64_t first = some ? reader.count("max_window_layers", kMostLayers, 28, 0) : 0;
  for (int64_t layer = 0; layer < config.layers; ++layer) {
    bool slides = layer >= first;
    if (types) {
      const Json& type = (*types)[size_t(layer)];
      slides = type == "sliding_attention";
      if (!slides && type != "full_attention")
        return reader.fail("layer_types", type,
                           "full_attention or sliding_attention in each place");
      if (slides && window == 0)
        return reader.refuse("layer_types has sliding_attention without a window",
                             "set use_sliding_window and sliding_window");
    }
    if (slides)
      config.windows[size_t(layer)] = window;
  }
}

} // namespace

Result<ModelConfig> parse_model_config(const std::string& file, std::string_view text) {
  constexpr const char* kHint = "take the config.json that belongs to the weights";
  const auto json = parse_json(file, text, kHint);
  if (!json)
    return json.error();
  if (!json->is_object())
    return Error{file + " is " + json_kind(*json) + ", not a JSON object", kHint};
  Reader reader(file, *json);
  const Family* family = find_family(reader);
  if (!family)
    return *reader.error;
  ModelConfig config;
  config.family = family->name;
  config.vocab_size = reader.count("vocab_size", kLargestCount);
  config.hidden_size = reader.count("hidden_size", kLargestWidth);
  config.intermediate_size = reader.count("intermediate_size", kLargestWidth);
  config.layers = reader.count("num_hidden_layers", kMostLayers);
  config.heads = reader.count("num_attention_heads", kLargestWidth);
  const int64_t width = std::max<int64_t>(1, config.hidden_size / config.heads);
  config.kv_heads = reader.count(
      "num_key_value_heads", kLargestWidth,
      family->kv_heads && !reader.is_null("num_key_value_heads") ? family->kv_heads : config.heads);
  config.head_dim =
      reader.count("head_dim", kLargestWidth, family->head_dim ? family->head_dim : width);
  config.max_position_embeddings =
      reader.count("max_position_embeddings", kLargestCount, family->max_position_embeddings);
  config.qk_norm = family->qk_norm;
  read_biases(reader, family->bias, config);
  read_windows(reader, family->window, config);
  config.initializer_range = reader.positive("initializer_range", 0.02);
  config.rms_norm_eps = reader.positive("rms_norm_eps", 1e-6);
  config.tied = reader.flag("tie_word_embeddings", false);
  read_rope(reader, file, config);
  read_end_of_text(reader, config);
  if (config.heads % config.kv_heads != 0)
    reader.refuse("num_attention_heads " + std::to_string(config.heads) +
                      " is no multiple of num_key_value_heads " + std::to_string(config.kv_heads),
                  kHint);
  if (config.head_dim % 2 != 0)
    reader.refuse("head_dim " + std::to_string(config.head_dim) + " is odd",
                  "rotary embeddings need an even one");
  if (const Json* dropout = reader.find("attention_dropout", false); dropout && *dropout != 0)
    reader.fail("attention_dropout", *dropout, "0: dropout is not supported");
  if (const std::string act = reader.text("hidden_act"); !act.empty() && act != "silu")
    reader.refuse("hidden_act " + quote(act) + " is not supported", "supported is silu");
  if (reader.error)
    return *reader.error;
  return config;
}

Result<ModelConfig> read_model_config(const std::string& directory) {
  const std::string file = directory + "/config.json";
  const auto content = MappedFile::open(
      file,
      "model_name_or_path must be a folder with config.json, *.safetensors and tokenizer.json",
      kLargestConfigFile);
  if (!content)
    return content.error();
  return parse_model_config(file, content->text());
}

} // namespace dist_train
