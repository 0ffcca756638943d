// SPDX-License-Identifier: BSD-3-Clause
// The real plugin, loaded afresh for each test under the stand-in for Slurm.
#pragma once

#include "tests/plugin/fake_slurm.h"
#include "tests/plugin/faults.h"

#include <cstdlib>
#include <dlfcn.h>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <sched.h>
#include <set>
#include <string>
#include <sys/wait.h>
#include <unistd.h>

// Forks while this process's other threads sleep. The child gets their locks as they are, and a
// sanitizer's malloc, unlike libc's, does not let go of its own.
inline pid_t fork_among_threads() {
  NoFaults own;
  const auto asleep = [](const std::filesystem::path& thread) {
    std::ifstream file(thread / "stat");
    std::string text;
    std::getline(file, text); // "1234 (name) S ...", or nothing when it has ended
    const auto name_end = text.rfind(") ");
    return name_end == text.npos || text.compare(name_end + 2, 1, "S") == 0;
  };
  const std::string self = std::to_string(gettid());
  for (bool quiet = false; !quiet; sched_yield()) {
    quiet = true;
    for (const auto& thread : std::filesystem::directory_iterator("/proc/self/task"))
      quiet = quiet && (thread.path().filename() == self || asleep(thread.path()));
  }
  return fork();
}

using Hook = int (*)(spank_t, int, char**);

// Sends every test's environment changes back to where they were, and loads the plugin afresh.
class Plugin : public testing::Test {
protected:
  void SetUp() override {
    fake_slurm = FakeSlurm{};
    for (const char* name :
         {"SLURM_DIST_TRAIN", "SLURM_DIST_TRAIN_OPTIONS", "SLURM_DIST_TRAIN_TOKEN",
          "SLURM_DIST_TRAIN_BROKER", "SLURM_KILL_BAD_EXIT", kPassedOn})
      unsetenv(name);
    handle_ = dlopen(PLUGIN_PATH, RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(handle_, nullptr) << dlerror();
  }
  void TearDown() override {
    fake_slurm.context = S_CTX_LOCAL; // tests that play both sides end as srun does
    call("slurm_spank_exit");
    dlclose(handle_);
  }

  int call(const char* hook, std::vector<std::string> arguments = {}) {
    auto* function = reinterpret_cast<Hook>(dlsym(handle_, hook));
    EXPECT_NE(function, nullptr) << hook;
    std::vector<char*> pointers;
    for (auto& argument : arguments)
      pointers.push_back(argument.data());
    WithFaults armed;
    return function(nullptr, static_cast<int>(pointers.size()), pointers.data());
  }
  // As Slurm calls the option; it is registered once per init.
  int option(const char* text, int remote) {
    const auto& row = fake_slurm.options.back();
    WithFaults armed;
    return row.cb(row.val, text, remote);
  }
  // Exit code of a task's child: task_init may end the process.
  int task_init() {
    pid_t child = fork_among_threads();
    if (child == 0) {
      int rc = call("slurm_spank_task_init");
      _exit(rc == 0 ? 0 : 99);
    }
    int status = 0;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }
  static std::string variable(const char* name) {
    const char* value = getenv(name);
    return value ? value : "(unset)";
  }
  // srun's side up to the launch.
  void srun(const char* text, std::vector<std::string> plugstack = {}) {
    fake_slurm.context = S_CTX_LOCAL;
    ASSERT_EQ(call("slurm_spank_init", std::move(plugstack)), 0);
    ASSERT_EQ(option(text, 0), 0);
    ASSERT_EQ(call("slurm_spank_init_post_opt"), 0);
    ASSERT_EQ(call("slurm_spank_local_user_init"), 0);
  }
  // What a task of a one-task step sees, with srun's variables. The node's name is an address that
  // nobody has, so that no name server is asked.
  void one_task_step() {
    fake_slurm.context = S_CTX_REMOTE;
    fake_slurm.environment = {{"SLURM_JOB_ID", "4711"},
                              {"SLURM_PROCID", "0"},
                              {"SLURM_LOCALID", "0"},
                              {"SLURM_STEP_NUM_TASKS", "1"},
                              {"SLURM_GTIDS", "0"},
                              {"SLURMD_NODENAME", "192.0.2.1"},
                              {"SLURM_STEP_NODELIST", "192.0.2.1"},
                              {"SLURM_STEP_TASKS_PER_NODE", "1"},
                              {"SLURM_DISTRIBUTION", "block"},
                              {"SLURM_LAUNCH_NODE_IPADDR", "127.0.0.1"},
                              {"SLURM_SRUN_COMM_HOST", "127.0.0.1"}};
    for (const char* name :
         {"SLURM_DIST_TRAIN_OPTIONS", "SLURM_DIST_TRAIN_TOKEN", "SLURM_DIST_TRAIN_BROKER"})
      if (const char* value = getenv(name))
        fake_slurm.environment[name] = value;
  }

  static constexpr const char* kPassedOn = "SLURM_SPANK__SLURM_SPANK_OPTION_dist_train_dist_train";
  void* handle_ = nullptr;
};
