// SPDX-License-Identifier: BSD-3-Clause
#include "tests/placement/support.h"

#include "libstep/core/machine_text.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <numeric>
#include <sys/wait.h>

namespace dist_train {

namespace fs = std::filesystem;

fs::path topologies() {
  const char* told = std::getenv("DIST_TRAIN_TOPOLOGIES");
  fs::path folder = told ? told : TOPOLOGIES;
  return fs::exists(folder / "EXPECTED.json") ? folder : fs::path();
}

std::vector<fs::path> files_below(const fs::path& folder, const std::string& ending) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    if (entry.is_regular_file() && entry.path().string().ends_with(ending))
      files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

Machine machine_from(const std::string& text) {
  auto machine = parse_machine_text("dist-train-machine 1\n" + text, "fixture");
  EXPECT_TRUE(machine) << (machine ? "" : machine.error().message) << '\n' << text;
  return machine ? *machine : Machine{};
}

std::string node_cpus(unsigned packages, unsigned nodes, unsigned cores, unsigned threads,
                      unsigned node) {
  auto all = packages * nodes * cores;
  std::string text;
  for (unsigned t = 0; t < threads; ++t)
    text += (t == 0 ? "" : ",") + std::to_string(t * all + node * cores) + "-" +
            std::to_string(t * all + (node + 1) * cores - 1);
  return text;
}

std::string regular_cpus(unsigned packages, unsigned nodes, unsigned cores, unsigned threads) {
  auto all = packages * nodes * cores;
  std::string text;
  for (unsigned node = 0; node < packages * nodes; ++node) {
    auto package = std::to_string(node / nodes);
    text += "numa " + std::to_string(node) + " package=" + package +
            " cpus=" + node_cpus(packages, nodes, cores, threads, node) + "\n";
    text += "cores package=" + package + " cache=" + std::to_string(node);
    for (unsigned core = node * cores; core < (node + 1) * cores; ++core) {
      text += " " + std::to_string(core);
      for (unsigned t = 1; t < threads; ++t)
        text += "," + std::to_string(t * all + core);
    }
    text += "\n";
  }
  return text;
}

PlacementRequest all_gpus(const Machine& machine, std::uint32_t tasks) {
  PlacementRequest request;
  request.tasks = tasks;
  request.gpus.resize(machine.gpus.size());
  std::iota(request.gpus.begin(), request.gpus.end(), 0);
  return request;
}

Machine own_machine(const std::string& name) {
  for (const auto& [known, text] : own_machines())
    if (known == name)
      return machine_from(text);
  ADD_FAILURE() << "no machine " << name;
  return {};
}

Scratch::Scratch() {
  auto name = (fs::temp_directory_path() / "placement.XXXXXX").string();
  folder_ = mkdtemp(name.data());
}

Scratch::~Scratch() {
  std::error_code ignored;
  fs::remove_all(folder_, ignored);
}

std::string Scratch::write(const std::string& name, const std::string& content) const {
  auto file = folder_ / name;
  fs::create_directories(file.parent_path());
  std::ofstream(file, std::ios::binary) << content;
  return file.string();
}

Outcome run_command(const std::string& line) {
  Outcome outcome;
  FILE* pipe = popen((line + " 2>&1").c_str(), "re");
  std::array<char, 4096> buffer{};
  while (auto got = pipe ? std::fread(buffer.data(), 1, buffer.size(), pipe) : 0)
    outcome.text.append(buffer.data(), got);
  int status = pipe ? pclose(pipe) : -1;
  outcome.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return outcome;
}

} // namespace dist_train
