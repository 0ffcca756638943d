// SPDX-License-Identifier: BSD-3-Clause
// The README says what the option's own help says; both name every variable that a task gets.
#include "libstep/core/environment.h"
#include "libstep/core/option_words.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>

namespace dist_train {
namespace {

std::string readme() {
  std::ifstream file(README_FILE);
  return {std::istreambuf_iterator<char>(file), {}};
}

// A '|' inside a cell of a Markdown table has a backslash.
std::string cell(std::string text) {
  for (std::size_t at = 0; (at = text.find('|', at)) != text.npos; at += 2)
    text.insert(at, 1, '\\');
  return text;
}

TEST(Readme, HasEveryWordWithItsHelp) {
  const auto text = readme();
  for (const auto& row : kWords)
    EXPECT_NE(text.find("| `" + std::string(row.word) + "` | " + row.help + " |"), text.npos)
        << row.word;
  for (const auto& row : kKeys) {
    const std::string key = std::string(row.name) + "=";
    const std::string wanted = row.plugstack_only
                                   ? "`" + key + row.values + "`: " + row.help
                                   : "| `" + key + cell(row.values) + "` | " + row.help + " |";
    EXPECT_NE(text.find(wanted), text.npos) << row.name;
  }
}

TEST(Readme, NamesEveryVariable) {
  TaskPlan plan;
  plan.cores = 1;
  plan.nccl_interfaces = "=eth0";
  plan.defaults = {{"CUDA_DEVICE_ORDER", ""}, {"NCCL_IB_HCA", ""}, {"UCX_NET_DEVICES", ""}};
  plan.devices = {
      {"CUDA_VISIBLE_DEVICES", ""}, {"ROCR_VISIBLE_DEVICES", ""}, {"HIP_VISIBLE_DEVICES", ""}};
  plan.interface = "eth0";
  plan.ports = {.master = 1, .store = 2, .jax = 3, .spare = 4, .spare_count = 1};
  plan.jax_devices = "0";
  plan.layout = plan.broker = plan.gpus = plan.numa = plan.nics = "x";
  plan.store_fd = plan.port_fd = plan.jax_fd = 9;
  Options options;
  options.strategy = Strategy::kFsdp;
  const auto text = readme();
  const std::set<std::string_view> listed(std::begin(kTaskVariables), std::end(kTaskVariables));
  for (const auto& row : kWords) {
    if (row.key != Key::kMode)
      continue;
    options.mode = row.mode;
    for (const auto& change : task_environment(plan, options, {}).changes) {
      EXPECT_NE(text.find("`" + change.name + "`"), text.npos) << change.name;
      EXPECT_TRUE(listed.contains(change.name) || change.name.starts_with("DIST_TRAIN_"))
          << change.name;
    }
  }
  for (const auto name : listed)
    EXPECT_NE(text.find("`" + std::string(name) + "`"), text.npos) << name;
}

TEST(Readme, NamesTestsThatExist) {
  const auto text = readme();
  const auto tests = std::filesystem::path(README_FILE).parent_path() / "tests";
  const std::regex name("[a-z_]+/[a-z_]+\\.bats");
  std::size_t count = 0;
  for (std::sregex_iterator it(text.begin(), text.end(), name), end; it != end; ++it, ++count)
    EXPECT_TRUE(std::filesystem::exists(tests / it->str())) << it->str();
  EXPECT_GT(count, 5u);
}

TEST(Help, NamesEveryVariable) {
  const auto help = options_help();
  for (const auto name : kTaskVariables)
    EXPECT_NE(help.find(" " + std::string(name)), help.npos) << name;
}

} // namespace
} // namespace dist_train
