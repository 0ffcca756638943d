// SPDX-License-Identifier: BSD-3-Clause
#include "trainer/train.h"

#include "trainer/batch.h"
#include "trainer/engine.h"
#include "trainer/inputs.h"
#include "trainer/optim.h"
#include "trainer/plan.h"
#include "trainer/report.h"
#include "trainer/schedule.h"
#include "trainer/weights.h"

#include <cmath>
#include <optional>

namespace dist_train {
namespace {

std::string name_of(Strategy strategy) {
  switch (strategy) {
  case Strategy::fsdp:
    return "fsdp";
  case Strategy::hsdp:
    return "hsdp";
  case Strategy::zero2:
    return "zero2";
  case Strategy::ddp:
    break;
  }
  return "ddp";
}

Result<Strategy> choose_strategy(const Config& config, const std::string& of_step) {
  if (config.strategy != "auto" && !of_step.empty() && config.strategy != of_step)
    return Error{"the configuration says strategy " + config.strategy + ", --dist-train says " +
                     of_step,
                 "leave strategy away, or say the same"};
  const std::string name = config.strategy != "auto" ? config.strategy
                           : of_step.empty()         ? "fsdp"
                                                     : of_step;
  for (const auto strategy : {Strategy::fsdp, Strategy::hsdp, Strategy::zero2, Strategy::ddp})
    if (name == name_of(strategy))
      return strategy;
  return Error{"strategy " + name + " is not one that this trainer has",
               "use fsdp, hsdp, zero2 or ddp"};
}

// hsdp: every node holds one copy of the model.
Result<void> check_nodes(const step_t* step, Strategy strategy) {
  if (strategy != Strategy::hsdp)
    return {};
  const int nodes = step_node_count(step), local = step_local_world_size(step);
  if (nodes > 0 && nodes * local == step_world_size(step))
    return {};
  return Error{"strategy hsdp needs as many ranks on every node: this one has " +
                   std::to_string(local) + ", all " + std::to_string(nodes) + " have " +
                   std::to_string(step_world_size(step)),
               "use --ntasks-per-node, or strategy fsdp"};
}

Checkpointing checkpointing(const Config& config) {
  return config.activation_checkpointing == "block"       ? Checkpointing::block
         : config.activation_checkpointing == "selective" ? Checkpointing::selective
                                                          : Checkpointing::none;
}

std::string export_directory(const Config& config) { return config.output_dir + "/hf"; }

uint64_t exported_bytes(const Config& config, const ModelConfig& model) {
  return uint64_t(parameter_count(model_units(model, 1))) * (config.bf16 ? 2 : 4);
}

// What training works on; made once all ranks have read their inputs.
struct State {
  int rank;
  int world_size;
  Links links;
  Sharding sharding;
  Engine engine;
  Optimizer optimizer;

  State(const step_t* step, Links connected, const Inputs& inputs, const Config& config,
        const Plan& plan, Strategy strategy)
      : rank(step_rank(step)), world_size(step_world_size(step)), links(std::move(connected)),
        sharding(model_units(inputs.model, links.shards->world_size()), links, strategy,
                 config.bf16 ? at::kBFloat16 : at::kFloat, plan.micro_steps),
        engine(inputs.model, sharding, checkpointing(config)), optimizer(sharding, config) {}
};

class Training {
public:
  Training(const Config& config, const Plan& plan, const Inputs& inputs, State& state,
           Reporter& reporter)
      : config_(config), plan_(plan), inputs_(inputs), state_(state), reporter_(reporter),
        loss_(at::zeros({1}, at::TensorOptions().dtype(at::kDouble).device(device()))) {}

  // One optimizer step. An error (the same on all ranks) when loss or gradient are not finite.
  Result<void> step(int64_t step);
  // Mean loss over the validation rows; the same at every world size.
  double evaluate();
  // Evaluates and reports unless there is nothing to evaluate on.
  void report_evaluation(int64_t step);
  double last_evaluation() const { return last_evaluation_; }

private:
  at::Device device() const { return state_.links.shards->device(); }
  int64_t train_on_rows(int64_t step); // returns this rank's number of labels
  void report(int64_t step, double learning_rate, double norm);

  const Config& config_;
  const Plan& plan_;
  const Inputs& inputs_;
  State& state_;
  Reporter& reporter_;
  at::Tensor loss_;
  double loss_sum_ = 0; // of the steps since the last report
  int64_t loss_count_ = 0;
  double last_evaluation_ = 0;
};

int64_t Training::train_on_rows(int64_t step) {
  int64_t labels = 0;
  for (int64_t micro = 0; micro < plan_.micro_steps; ++micro) {
    if (micro > 0)
      state_.sharding.end_pass();
    const int64_t first =
        first_position(config_, plan_, step, micro, state_.rank, state_.world_size);
    std::vector<int64_t> rows;
    for (int64_t i = 0; i < config_.per_device_train_batch_size; ++i)
      rows.push_back(row_at(first + i, inputs_.train.rows(), uint64_t(config_.seed)));
    const Batch batch = make_batch(inputs_.train, rows, device());
    state_.engine.train(batch, loss_);
    labels += batch.label_count;
  }
  return labels;
}

Result<void> Training::step(int64_t step) {
  state_.sharding.begin_step();
  loss_.zero_();
  const int64_t labels = train_on_rows(step);
  state_.sharding.finish_reductions();

  // Gradients are still sums over labels; their number is that of all ranks.
  auto sums = at::tensor({0.0, double(labels), squared_norm(state_.sharding)}, at::kDouble);
  sums = sums.to(device());
  sums.narrow(0, 0, 1).copy_(loss_);
  state_.links.all_reduce(sums);
  sums = sums.cpu();
  const auto* sum = sums.const_data_ptr<double>();
  const double count = std::max(1.0, sum[1]);
  const double loss = sum[0] / count, norm = std::sqrt(sum[2]) / count;
  if (!std::isfinite(loss) || !std::isfinite(norm))
    return Error{"loss " + number_text(loss) + " and gradient norm " + number_text(norm) +
                     " at step " + std::to_string(step + 1) + " are not both finite",
                 "lower learning_rate, add warmup_steps, or look for odd text in train_file"};
  double clip = 1;
  if (config_.max_grad_norm > 0)
    clip = std::min(1.0, config_.max_grad_norm / (norm + 1e-6));
  const double learning_rate =
      config_.learning_rate *
      schedule_factor(config_.lr_scheduler_type, step, plan_.steps, plan_.warmup_steps);
  state_.optimizer.step(learning_rate, count / clip);

  loss_sum_ += loss;
  ++loss_count_;
  if ((step + 1) % config_.logging_steps == 0 || step + 1 == plan_.steps || step == 0)
    report(step + 1, learning_rate, norm);
  return {};
}

void Training::report(int64_t step, double learning_rate, double norm) {
  const double rows = double(step) * double(plan_.rows_per_step);
  reporter_.step({step, loss_sum_ / double(loss_count_), learning_rate, norm,
                  rows / double(inputs_.train.rows()),
                  step * plan_.rows_per_step * config_.block_size});
  loss_sum_ = 0;
  loss_count_ = 0;
}

double Training::evaluate() {
  const PackedRows& rows = inputs_.validation;
  int64_t count = rows.rows();
  if (config_.max_eval_samples > 0)
    count = std::min(count, config_.max_eval_samples);
  const int64_t world = state_.world_size;
  const int64_t width = std::min(config_.per_device_eval_batch_size, (count + world - 1) / world);
  const int64_t per_pass = width * world;
  auto sums = at::zeros({2}, loss_.options());
  auto loss = sums.narrow(0, 0, 1);
  double labels = 0;
  for (int64_t first = width * state_.rank, pass = 0; pass * per_pass < count; ++pass) {
    std::vector<int64_t> numbers;
    for (int64_t i = 0; i < width; ++i) {
      const int64_t number = pass * per_pass + first + i;
      numbers.push_back(number < count ? number : -1);
    }
    const Batch batch = make_batch(rows, numbers, device());
    state_.engine.evaluate(batch, loss);
    labels += double(batch.label_count);
  }
  sums.narrow(0, 1, 1).fill_(labels);
  state_.links.all_reduce(sums);
  sums = sums.cpu();
  const auto* sum = sums.const_data_ptr<double>();
  return sum[0] / std::max(1.0, sum[1]);
}

void Training::report_evaluation(int64_t step) {
  if (inputs_.validation.rows() == 0)
    return;
  reporter_.pause();
  last_evaluation_ = evaluate();
  reporter_.evaluation(step, last_evaluation_);
  reporter_.resume();
}

std::string names(const Links& links) {
  std::string text = links.shards->world_size() > 1 ? links.shards->name() : "";
  if (links.replicas->world_size() > 1)
    text += (text.empty() ? "" : " and ") + links.replicas->name();
  return text;
}

std::string megabytes(double mib) { return std::to_string(int64_t(mib + 0.5)) + " MiB"; }

void introduce(Reporter& reporter, step_t* step, const Config& config, const Plan& plan,
               const Inputs& inputs, State& state, Strategy strategy) {
  const double millions = double(parameter_count(state.sharding.units())) / 1e6;
  char size[32];
  std::snprintf(size, sizeof size, "%.1f M parameters", millions);
  const int world = state.world_size;
  const std::string way = world == 1 ? "alone" : name_of(strategy) + " over " + names(state.links);
  reporter.line("ranks    " + std::to_string(world) + " on " +
                std::to_string(step_node_count(step)) + " node" +
                (step_node_count(step) == 1 ? "" : "s") + " (" + step_source_text(step) + "), " +
                way + ", " + std::to_string(at::get_num_threads()) + " thread" +
                (at::get_num_threads() == 1 ? "" : "s") + " each");
  reporter.line(
      "data     " + std::to_string(inputs.train.rows()) + " rows of " +
      std::to_string(config.block_size) + " tokens; steps: " + std::to_string(plan.steps) +
      ", rows a step: " + std::to_string(plan.rows_per_step) +
      (plan.micro_steps == 1 ? "" : " in " + std::to_string(plan.micro_steps) + " micro-steps"));
}

// The largest peak of all ranks and who has it. at_start: what the process took before the model.
void report_memory(Reporter& reporter, step_t* step, double at_start, double seconds) {
  const double mine = peak_memory_mib();
  std::vector<double> all(size_t(step_world_size(step)));
  if (step_all_gather(step, &mine, sizeof mine, all.data(), seconds) != STEP_OK)
    return;
  const auto largest = std::max_element(all.begin(), all.end());
  reporter.line("memory   peak " + megabytes(*largest) + " on " +
                describe_rank(step, int(largest - all.begin())));
  reporter.result("peak_memory_mib", *largest);
  reporter.result("memory_growth_mib", *largest - at_start);
}

} // namespace

bool run(step_t* step, const Config& config, Watcher& watcher) {
  const at::NoGradGuard no_gradients;
  const double patience = config.step_timeout;
  const int world = step_world_size(step);
  const bool speaks = step_rank(step) == 0;

  // Every rank reads, then all agree that all could.
  const auto strategy = choose_strategy(config, step_strategy(step));
  std::optional<Result<Inputs>> inputs;
  std::optional<Result<Plan>> plan;
  std::optional<Result<Reporter>> reporter;
  Result<void> ready;
  const auto also = [&ready](const auto& result) {
    if (!result && ready)
      ready = result.error();
    return bool(ready);
  };
  if (also(strategy) && also(check_nodes(step, *strategy)) &&
      also(inputs.emplace(read_inputs(config, at::get_num_threads()))) &&
      also(plan.emplace(make_plan(config, (*inputs)->train.rows(), world))))
    if (also(reporter.emplace(Reporter::open(config.output_dir, (*plan)->steps, speaks))) &&
        speaks && config.save_model)
      also(prepare_export(config.model_name_or_path, export_directory(config),
                          exported_bytes(config, (*inputs)->model)));
  Shared rows{"training rows"};
  if (ready) {
    const auto& tokens = (*inputs)->train.tokens;
    rows.hash =
        hash_of({reinterpret_cast<const char*>(tokens.data()), tokens.size() * sizeof tokens[0]});
  }
  if (!agree(step, ready, patience, rows))
    return false;

  auto links = connect(step, config.ddp_backend == "gloo" ? Transport::gloo : Transport::fastest,
                       *strategy == Strategy::hsdp, patience);
  if (!links) // the others wait in connect()
    watcher.leave(links.error());
  const double at_start = resident_memory_mib();
  State state(step, *std::move(links), **inputs, config, **plan, *strategy);
  if (!agree(step, load_weights((*inputs)->files, state.sharding), patience))
    return false;
  (*inputs)->files = TensorFiles(); // what was read of them counts as this process's memory
  Reporter& report = **reporter;
  introduce(report, step, config, **plan, **inputs, state, *strategy);

  Training training(config, **plan, **inputs, state, report);
  training.report_evaluation(0);
  report.begin_training();
  const int64_t steps = (*plan)->steps;
  for (int64_t i = 0; i < steps; ++i) {
    watcher.at_step(i + 1);
    if (const auto done = training.step(i); !done) {
      if (speaks)
        print_error(done.error());
      return false;
    }
    if (i == 0)
      report.line("start    first step done " + duration_text(seconds_since_start()) +
                  " after the program began");
    if (i + 1 == steps || (config.eval_steps > 0 && (i + 1) % config.eval_steps == 0))
      training.report_evaluation(i + 1);
  }
  report_memory(report, step, at_start, patience);
  if (config.save_model) {
    const std::string directory = export_directory(config);
    const auto saved = export_model(state.sharding, config.model_name_or_path, directory);
    if (!agree(step, saved, patience))
      return false;
    report.line("model    written to " + directory);
  }
  report.result("steps", double(steps));
  report.result("tokens_per_second", report.tokens_per_second());
  if ((*inputs)->validation.rows() > 0)
    report.result("eval_loss", training.last_evaluation());
  return true;
}

} // namespace dist_train
