// SPDX-License-Identifier: BSD-3-Clause
// What hwloc's own tool says about the same file.
#include "libstep/core/text.h"
#include "libstep/os/machine.h"
#include "tests/placement/support.h"
#include "tests/placement/xml.h"

#include <algorithm>

namespace dist_train {
namespace {

// What hwloc-calc answers to several questions, with the kernel's numbers: a line each.
std::vector<std::string> calc(const std::filesystem::path& file, const std::string& options,
                              const std::vector<std::string>& questions) {
  Scratch scratch;
  std::string lines;
  for (const auto& question : questions)
    lines += question + "\n";
  auto outcome =
      run_command(std::string(HWLOC_CALC) + " -i '" + file.string() + "' --disallowed -p " +
                  options + " < " + scratch.write("questions", lines));
  EXPECT_EQ(outcome.code, 0) << outcome.text;
  std::vector<std::string> answers;
  for (auto line : split(outcome.text, '\n'))
    if (!line.starts_with("Waiting for locations"))
      answers.emplace_back(line);
  answers.resize(questions.size());
  return answers;
}

IdSet set_of(const std::string& list) {
  auto set = parse_id_set(list);
  EXPECT_TRUE(set) << list;
  return set ? *set : IdSet{};
}

std::size_t compare(const std::filesystem::path& file) {
  SCOPED_TRACE(file);
  auto machine = read_machine(file);
  EXPECT_TRUE(machine);
  auto tasks = static_cast<std::uint32_t>(std::max<std::size_t>(1, machine->gpus.size()));
  auto plan = plan_placement(*machine, all_gpus(*machine, tasks));
  std::vector<std::string> places{"all"}, slices{"all"};
  for (const auto& gpu : machine->gpus)
    places.push_back("pci=" + to_text(gpu.pci.address));
  for (const auto& task : plan.tasks) {
    slices.emplace_back();
    for (auto cpu : task.cpus)
      slices.back() += "pu:" + std::to_string(cpu) + " ";
  }
  auto cpus = calc(file, "-I pu", places), nodes = calc(file, "-I numa", places);
  auto cores = calc(file, "-N core", slices);
  EXPECT_EQ(set_of(cpus[0]), all_cpus(*machine));
  EXPECT_EQ(cores[0], std::to_string(machine->cores.size()));
  for (std::size_t i = 0; i < plan.tasks.size(); ++i) // whole ones, as many as the plan says
    EXPECT_EQ(cores[i + 1], std::to_string(plan.tasks[i].cores));
  for (std::size_t i = 0; i < machine->gpus.size(); ++i) {
    const auto& gpu = machine->gpus[i];
    SCOPED_TRACE(to_text(gpu.pci.address));
    if (gpu.pci.cpus.empty())
      continue;
    EXPECT_EQ(set_of(cpus[i + 1]), gpu.pci.cpus);
    // The tool counts memory that is not for programs, too.
    EXPECT_EQ(intersection(set_of(nodes[i + 1]), plan.tasks[i].numa), plan.tasks[i].numa);
  }
  return machine->gpus.size();
}

TEST(HwlocCalc, AgreesOnOurOwnFile) {
  if (std::string(HWLOC_CALC).empty())
    GTEST_SKIP() << "no hwloc-calc";
  Scratch scratch;
  xml::Machine document;
  for (unsigned p = 0; p < 2; ++p)
    document.devices[p] = xml::host_bridge(
        p * 0x40, xml::function(p == 0 ? "0000:01:00.0" : "0000:41:00.0", "0302 [10de:2335]"));
  EXPECT_EQ(compare(scratch.write("own.xml", xml::document(document))), 2u);
}

TEST(HwlocCalc, AgreesOnRealMachines) {
  if (std::string(HWLOC_CALC).empty())
    GTEST_SKIP() << "no hwloc-calc";
  if (topologies().empty())
    GTEST_SKIP() << kNoTopologies;
  std::size_t gpus = 0;
  for (const char* folder : {"hwloc", "hwloc-derived"})
    for (const auto& file : files_below(topologies() / folder, ".xml"))
      gpus += compare(file);
  std::printf("gpus=%zu\n", gpus);
}

} // namespace
} // namespace dist_train
