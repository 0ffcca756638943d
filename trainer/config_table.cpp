// SPDX-License-Identifier: BSD-3-Clause
#include "trainer/config_table.h"

#include "trainer/json_text.h"

#include <cstdio>

namespace dist_train {
namespace {

ConfigOption text(const char* name, std::string Config::*member, const char* help) {
  return {.name = name, .member = member, .help = help};
}
ConfigOption path(const char* name, std::string Config::*member, const char* help) {
  return {.name = name, .member = member, .help = help, .required = true};
}
ConfigOption choice(const char* name, std::string Config::*member, std::vector<std::string> choices,
                    const char* help) {
  return {.name = name, .member = member, .help = help, .choices = std::move(choices)};
}
ConfigOption flag(const char* name, bool Config::*member, const char* help) {
  return {.name = name, .member = member, .help = help};
}
// Integers stay below 2^53, where a double and JSON readers everywhere are exact.
constexpr double kLargestInteger = 9007199254740991.0;
ConfigOption integer(const char* name, int64_t Config::*member, double least, const char* help,
                     double most = kLargestInteger) {
  return {.name = name, .member = member, .help = help, .least = least, .most = most};
}
ConfigOption at_least(const char* name, double Config::*member, double least, const char* help) {
  return {.name = name, .member = member, .help = help, .least = least};
}
ConfigOption above_zero(const char* name, double Config::*member, const char* help) {
  return {.name = name, .member = member, .help = help, .least = 0, .least_excluded = true};
}
ConfigOption between(const char* name, double Config::*member, double least, double most,
                     const char* help) {
  return {.name = name, .member = member, .help = help, .least = least, .most = most};
}
ConfigOption below_one(const char* name, double Config::*member, const char* help) {
  return {
      .name = name, .member = member, .help = help, .least = 0, .most = 1, .most_excluded = true};
}
ConfigOption under(const char* heading, ConfigOption option) {
  option.heading = heading;
  return option;
}

constexpr double kLargestBlock = 1 << 24; // positions and offsets of a row fit 32 bits with room
constexpr double kLargestBatch = 1 << 24;
constexpr double kLongestWait = 1e7; // four months; every unit of time it is turned into has room

// clang-format off
const std::vector<ConfigOption>& table() {
  static const std::vector<ConfigOption> options = {
    under("Model and data",
      path("model_name_or_path", &Config::model_name_or_path, "directory with config.json, *.safetensors and tokenizer.json")),
    path("train_file", &Config::train_file, "JSONL, one {\"text\": \"...\"} a line"),
    text("validation_file", &Config::validation_file, "the same, held out; empty: no evaluation"),
    path("output_dir", &Config::output_dir, "metrics.jsonl and the exported model (hf/) go here"),
    integer("block_size", &Config::block_size, 2, "tokens of one packed row", kLargestBlock),
    under("Sharding and precision",
      choice("strategy", &Config::strategy, {"auto", "fsdp", "hsdp", "zero2", "ddp"}, "what is divided among ranks: parameters too (fsdp; hsdp among those of a node), gradients and optimizer (zero2), the optimizer (ddp); auto takes the step's, else fsdp")),
    choice("activation_checkpointing", &Config::activation_checkpointing, {"none", "selective", "block"}, "activations computed anew in the backward pass: none, those of the MLP and the projections around it, or whole blocks"),
    choice("ddp_backend", &Config::ddp_backend, {"auto", "gloo"}, "collectives of CPUs: auto is shared memory where all ranks are on one node, else Gloo; GPUs have NCCL"),
    flag("bf16", &Config::bf16, "bf16 parameters and arithmetic; fp32 master weights and reduction"),
    under("Optimisation",
      integer("max_steps", &Config::max_steps, -1, "optimizer steps; -1: num_train_epochs decides")),
    above_zero("num_train_epochs", &Config::num_train_epochs, "passes over the training rows"),
    integer("per_device_train_batch_size", &Config::per_device_train_batch_size, 1, "rows per rank and micro-step", kLargestBatch),
    integer("global_train_batch_size", &Config::global_train_batch_size, 0, "rows per optimizer step over all ranks; 0: per_device_train_batch_size x ranks x gradient_accumulation_steps", kLargestBatch),
    integer("gradient_accumulation_steps", &Config::gradient_accumulation_steps, 1, "micro-steps per optimizer step", kLargestBatch),
    integer("per_device_eval_batch_size", &Config::per_device_eval_batch_size, 1, "rows per rank in evaluation", kLargestBatch),
    at_least("learning_rate", &Config::learning_rate, 0, "highest learning rate of the schedule"),
    choice("optim", &Config::optim, {"adamw_torch", "muon"}, "adamw_torch is AdamW; muon is Muon (momentum 0.95, Nesterov, updates as large as AdamW's) for the matrices of blocks and AdamW for the rest"),
    at_least("weight_decay", &Config::weight_decay, 0, "decoupled weight decay"),
    below_one("adam_beta1", &Config::adam_beta1, "decay of the first moment"),
    below_one("adam_beta2", &Config::adam_beta2, "decay of the second moment"),
    above_zero("adam_epsilon", &Config::adam_epsilon, "added to the root of the second moment"),
    at_least("max_grad_norm", &Config::max_grad_norm, 0, "gradients are scaled down to this norm; 0: no clipping"),
    choice("lr_scheduler_type", &Config::lr_scheduler_type, {"linear", "cosine", "constant", "constant_with_warmup"}, "course of the learning rate after warm-up"),
    integer("warmup_steps", &Config::warmup_steps, 0, "steps in which the learning rate rises from 0"),
    below_one("warmup_ratio", &Config::warmup_ratio, "the same as a part of all steps; used when warmup_steps is 0"),
    integer("seed", &Config::seed, 0, "of the data order"),
    under("Reporting",
      integer("logging_steps", &Config::logging_steps, 1, "optimizer steps between two lines of the log")),
    integer("eval_steps", &Config::eval_steps, 0, "optimizer steps between evaluations; 0: before the first step and after the last only"),
    integer("max_eval_samples", &Config::max_eval_samples, 0, "packed rows used in evaluation; 0: all"),
    flag("save_model", &Config::save_model, "export a Hugging Face directory (hf/) at the end"),
    between("step_timeout", &Config::step_timeout, 1, kLongestWait, "seconds a rank waits for the others before it gives up"),
  };
  return options;
}
// clang-format on

std::string number_text(double value) {
  char buffer[32];
  std::snprintf(buffer, sizeof buffer, "%.16g", value);
  return buffer;
}

} // namespace

std::span<const ConfigOption> config_options() { return table(); }

const ConfigOption* find_config_option(std::string_view name) {
  for (const auto& option : table()) {
    if (option.name == name) {
      return &option;
    }
  }
  return nullptr;
}

std::string describe_value(const ConfigOption& option) {
  if (std::holds_alternative<bool Config::*>(option.member)) {
    return "true or false";
  }
  if (std::holds_alternative<std::string Config::*>(option.member)) {
    std::string result = option.choices.empty() ? "a string" : "one of ";
    for (size_t i = 0; i < option.choices.size(); ++i) {
      result += (i ? ", " : "") + option.choices[i];
    }
    return result;
  }
  const bool whole = std::holds_alternative<int64_t Config::*>(option.member);
  std::string result = whole ? "an integer" : "a number";
  if (option.least != -std::numeric_limits<double>::infinity()) {
    result += (option.least_excluded ? " above " : " of at least ") + number_text(option.least);
  }
  const double unlimited = whole ? kLargestInteger : std::numeric_limits<double>::infinity();
  if (option.most != unlimited) {
    result += (option.most_excluded ? " and below " : " and at most ") + number_text(option.most);
  }
  return result;
}

std::string config_help() {
  const Config defaults;
  std::string result =
      "usage: dist-trainer [CONFIG.json] [--name=value]...\n"
      "\n"
      "CONFIG.json is one object {\"name\": value, ...}; // comments are allowed.\n"
      "--name=value, --name value and, for true, --name override the file.\n";
  for (const auto& option : table()) {
    if (option.heading) {
      result += std::string("\n") + option.heading + ":\n";
    }
    const nlohmann::json value =
        std::visit([&](auto member) { return nlohmann::json(defaults.*member); }, option.member);
    result += std::string("  --") + option.name + "  " + option.help + "\n      " +
              describe_value(option) +
              (option.required ? "; required" : "; default " + value.dump()) + "\n";
  }
  return result;
}

std::string config_json(const Config& config) {
  nlohmann::ordered_json object;
  for (const auto& option : table()) {
    std::visit([&](auto member) { object[option.name] = config.*member; }, option.member);
  }
  return object.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

} // namespace dist_train
