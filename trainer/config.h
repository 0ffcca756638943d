// SPDX-License-Identifier: BSD-3-Clause
// The trainer's configuration: one JSON file (comments allowed) and --name=value overrides.
// Names are those of Hugging Face TrainingArguments wherever one exists. One table drives parsing,
// --help and the resolved print-out. Pure: no torch, no environment.
#pragma once

#include "libstep/core/result.h"

#include <cstdint>
#include <string>
#include <vector>

namespace dist_train {

struct Config {
  // Model and data
  std::string model_name_or_path;       // directory with config.json, *.safetensors, tokenizer.json
  std::string train_file;               // JSONL, one {"text": "..."} a line
  std::string validation_file;          // the same; empty: no evaluation
  std::string output_dir;               // metrics.jsonl and the exported model (hf/) go here
  int64_t block_size = 1024;            // tokens of one packed row
  // Sharding and precision
  std::string strategy = "auto";        // auto, fsdp, hsdp, zero2, ddp; auto takes the step's, else fsdp
  std::string activation_checkpointing = "none"; // none, selective, block
  std::string ddp_backend = "auto";     // auto, gloo
  bool bf16 = false;                    // bf16 parameters and arithmetic, fp32 master and reduction
  // Optimisation
  int64_t max_steps = -1;               // optimizer steps; -1: num_train_epochs decides
  double num_train_epochs = 1;
  int64_t per_device_train_batch_size = 1;  // rows per rank and micro-step
  int64_t global_train_batch_size = 0;  // rows per optimizer step over all ranks; 0: derived
  int64_t gradient_accumulation_steps = 1;
  int64_t per_device_eval_batch_size = 1;
  double learning_rate = 5e-5;
  std::string optim = "adamw_torch";    // adamw_torch, muon
  double weight_decay = 0;
  double adam_beta1 = 0.9;
  double adam_beta2 = 0.999;
  double adam_epsilon = 1e-8;
  double max_grad_norm = 1;             // 0: no clipping
  std::string lr_scheduler_type = "linear"; // linear, cosine, constant, constant_with_warmup
  int64_t warmup_steps = 0;
  double warmup_ratio = 0;              // of all steps, used when warmup_steps is 0
  int64_t seed = 42;
  // Reporting
  int64_t logging_steps = 10;
  int64_t eval_steps = 0;               // 0: before the first step and after the last only
  int64_t max_eval_samples = 0;         // packed rows used for evaluation; 0: all
  bool save_model = true;               // export hf/ at the end
  double step_timeout = 600;            // seconds a rank waits for the others before it gives up
};

struct ConfigArguments {
  std::string file;                     // the JSON file, or empty
  std::vector<std::pair<std::string, std::string>> overrides; // name, value
  bool help = false;
};

// Splits argv (without the program name): at most one bare word (the file), --name=value,
// --name value, --flag for booleans, --help. Unknown names are refused with the nearest right one;
// of a name given twice the last counts, so that "$@" in a script can change what the script says.
Result<ConfigArguments> parse_arguments(const std::vector<std::string>& arguments);

// Parses the text of the file (file names the place in errors: "config.json:7:3"), applies the
// overrides and checks ranges and required names. Unknown or repeated names, wrong types and values
// out of range are errors that name the place, the value and the nearest right name.
Result<Config> make_config(const std::string& file, const std::string& text,
                           const std::vector<std::pair<std::string, std::string>>& overrides);

std::string config_help();              // the text of --help, from the table
std::string config_json(const Config&); // the resolved configuration, one JSON object

} // namespace dist_train
