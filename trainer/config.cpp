// SPDX-License-Identifier: BSD-3-Clause
#include "trainer/config.h"

#include "trainer/config_file.h"
#include "trainer/config_table.h"
#include "trainer/text_place.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>

namespace dist_train {
namespace {

using Value = decltype(ConfigEntry::value);

Error unknown_name(const std::string& place, const std::string& name) {
  std::vector<std::string> names;
  for (const auto& option : config_options()) {
    names.push_back(option.name);
  }
  const auto near = nearest_name(name, names);
  return {place + ": unknown option " + quote(name),
          near ? "did you mean " + quote(*near) + "? --help lists all" : "--help lists all"};
}

bool in_range(const ConfigOption& option, double value) {
  const bool low = option.least_excluded ? value > option.least : value >= option.least;
  const bool high = option.most_excluded ? value < option.most : value <= option.most;
  return std::isfinite(value) && low && high;
}

// Stores a value of the right type, range and choice; false when it is not.
bool assign(Config& config, const ConfigOption& option, const Value& value) {
  const auto whole = std::get_if<int64_t>(&value);
  if (const auto member = std::get_if<bool Config::*>(&option.member)) {
    const auto flag = std::get_if<bool>(&value);
    return flag && (config.*(*member) = *flag, true);
  }
  if (const auto member = std::get_if<std::string Config::*>(&option.member)) {
    const auto text = std::get_if<std::string>(&value);
    const auto& choices = option.choices;
    if (!text || text->find('\0') != std::string::npos ||
        (!choices.empty() && std::find(choices.begin(), choices.end(), *text) == choices.end())) {
      return false;
    }
    config.*(*member) = *text;
    return true;
  }
  if (const auto member = std::get_if<int64_t Config::*>(&option.member)) {
    return whole && in_range(option, double(*whole)) && (config.*(*member) = *whole, true);
  }
  const auto member = std::get<double Config::*>(option.member);
  const auto real = std::get_if<double>(&value);
  if (!(whole || real) || !in_range(option, whole ? double(*whole) : *real)) {
    return false;
  }
  config.*member = whole ? double(*whole) : *real;
  return true;
}

Error wrong_value(const std::string& place, const ConfigOption& option, const std::string& shown,
                  const Value& value) {
  std::string hint;
  if (const auto text = std::get_if<std::string>(&value); text && !option.choices.empty()) {
    if (const auto near = nearest_name(*text, option.choices)) {
      hint = "did you mean " + quote(*near) + "? ";
    }
  }
  return {place + ": " + option.name + " is " + shown + "; it must be " + describe_value(option),
          hint + option.name + ": " + option.help};
}

// A word of the command line as a value of the option's type; anything else stays a string, which
// assign() then refuses.
Value value_of_word(const ConfigOption& option, const std::string& word) {
  const char* end = word.data() + word.size();
  if (std::holds_alternative<bool Config::*>(option.member)) {
    if (word == "true" || word == "True" || word == "false" || word == "False") {
      return word == "true" || word == "True";
    }
  } else if (!std::holds_alternative<std::string Config::*>(option.member)) {
    int64_t whole = 0;
    if (const auto [rest, error] = std::from_chars(word.data(), end, whole);
        error == std::errc() && rest == end) {
      return whole;
    }
    double real = 0;
    if (const auto [rest, error] = std::from_chars(word.data(), end, real);
        error == std::errc() && rest == end) {
      return real;
    }
  }
  return word;
}

// What must hold between options. `place` tells where each given option was said.
Result<void> check_together(const Config& c, const std::map<std::string, std::string>& place) {
  const auto at = [&](const std::string& name) {
    const auto found = place.find(name);
    return (found == place.end() ? "configuration" : found->second) + ": ";
  };
  const auto number = [](int64_t value) { return std::to_string(value); };
  for (const auto& option : config_options()) {
    const auto* member = std::get_if<std::string Config::*>(&option.member);
    if (option.required && (c.*(*member)).empty()) {
      return Error{at(option.name) + std::string(option.name) + " is missing",
                   std::string("set ") + option.name + ": " + option.help};
    }
  }
  if (c.max_steps == 0) {
    return Error{at("max_steps") + "max_steps is 0: nothing would be trained",
                 "give at least 1, or -1 to let num_train_epochs decide"};
  }
  if (c.global_train_batch_size > 0 && c.gradient_accumulation_steps > 1) {
    return Error{at("gradient_accumulation_steps") + "gradient_accumulation_steps " +
                     number(c.gradient_accumulation_steps) + " and global_train_batch_size " +
                     number(c.global_train_batch_size) + " both set the rows of a step",
                 "give one of the two; global_train_batch_size keeps the step the same at every "
                 "number of ranks"};
  }
  if (c.global_train_batch_size % c.per_device_train_batch_size != 0) {
    return Error{at("global_train_batch_size") + "global_train_batch_size " +
                     number(c.global_train_batch_size) +
                     " is not a multiple of per_device_train_batch_size " +
                     number(c.per_device_train_batch_size),
                 "every rank takes per_device_train_batch_size rows at a time"};
  }
  if (c.validation_file.empty()) {
    for (const auto& [name, value] : {std::pair{"eval_steps", c.eval_steps},
                                      std::pair{"max_eval_samples", c.max_eval_samples}}) {
      if (value > 0) {
        return Error{at(name) + std::string(name) + " is " + number(value) +
                         ", but there is no validation_file",
                     std::string("set validation_file, or leave out ") + name};
      }
    }
  }
  if (c.lr_scheduler_type == "constant" && (c.warmup_steps > 0 || c.warmup_ratio > 0)) {
    return Error{at("lr_scheduler_type") + "lr_scheduler_type is 'constant', which has no warm-up, "
                                           "but warm-up is asked for",
                 "use constant_with_warmup, or leave out warmup_steps and warmup_ratio"};
  }
  if (c.max_steps > 0 && c.warmup_steps > c.max_steps) {
    return Error{at("warmup_steps") + "warmup_steps " + number(c.warmup_steps) +
                     " is more than max_steps " + number(c.max_steps),
                 "training would end before the learning rate has risen; lower warmup_steps"};
  }
  return {};
}

} // namespace

Result<ConfigArguments> parse_arguments(const std::vector<std::string>& arguments) {
  ConfigArguments result;
  const auto is_true_or_false = [](const std::string& word) {
    return word == "true" || word == "false" || word == "True" || word == "False";
  };
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string& word = arguments[i];
    if (word == "--help" || word == "-h") {
      result.help = true;
      continue;
    }
    if (!word.starts_with("-")) {
      if (!result.file.empty() || word.empty()) {
        return Error{"command line: unexpected word " + quote(word),
                     result.file.empty() ? "give the configuration file and --name=value"
                                         : "the configuration file is already " +
                                               quote(result.file) + "; options are --name=value"};
      }
      result.file = word;
      continue;
    }
    const size_t equals = std::min(word.find('='), word.size());
    std::string name = word.substr(word.starts_with("--") ? 2 : 1);
    name.resize(name.size() - (word.size() - equals));
    std::replace(name.begin(), name.end(), '-', '_'); // --max-steps is --max_steps
    const ConfigOption* option = word.starts_with("--") ? find_config_option(name) : nullptr;
    if (!option) {
      return unknown_name("command line: " + quote(word), name);
    }
    const auto same = [&](const auto& given) { return given.first == name; };
    std::erase_if(result.overrides, same);
    const bool more = i + 1 < arguments.size();
    std::string value;
    if (equals < word.size()) {
      value = word.substr(equals + 1);
    } else if (std::holds_alternative<bool Config::*>(option->member)) {
      value = more && is_true_or_false(arguments[i + 1]) ? arguments[++i] : "true";
    } else if (more && !arguments[i + 1].starts_with("--")) {
      value = arguments[++i];
    } else {
      return Error{"command line: --" + name + " lacks its value",
                   "say --" + name + "=VALUE, " + describe_value(*option)};
    }
    result.overrides.emplace_back(name, value);
  }
  return result;
}

Result<Config> make_config(const std::string& file, const std::string& text,
                           const std::vector<std::pair<std::string, std::string>>& overrides) {
  Config config;
  std::map<std::string, std::string> places;
  if (!file.empty()) {
    auto entries = read_config_entries(file, text);
    if (!entries) {
      return entries.error();
    }
    for (const auto& entry : *entries) {
      const ConfigOption* option = find_config_option(entry.name);
      if (!option) {
        Error error = unknown_name(place_text(file, text, entry.name_offset), entry.name);
        error.caret = excerpt(text, entry.name_offset, entry.name.size() + 2);
        return error;
      }
      const std::string place = place_text(file, text, entry.value_offset);
      if (!assign(config, *option, entry.value)) {
        const auto shown = std::string_view(text).substr(entry.value_offset, entry.value_width);
        Error error = wrong_value(place, *option, quote(shown), entry.value);
        error.caret = excerpt(text, entry.value_offset, entry.value_width);
        return error;
      }
      places[entry.name] = place;
    }
  }
  for (const auto& [name, word] : overrides) {
    const ConfigOption* option = find_config_option(name);
    if (!option) {
      return unknown_name("--" + name, name);
    }
    const Value value = value_of_word(*option, word);
    if (!assign(config, *option, value)) {
      return wrong_value("--" + name, *option, quote(word), value);
    }
    places[name] = "--" + name;
  }
  if (auto together = check_together(config, places); !together) {
    return together.error();
  }
  return config;
}

} // namespace dist_train
