// SPDX-License-Identifier: BSD-3-Clause
// Every call that a hook makes fails once: memory, Slurm's functions with each of their codes,
// sockets, files, threads. srun, sbatch, slurmd and slurmstepd survive it; a step that did not ask
// is not changed; one that asked is complete, or ends with a message and a code that is not 0.
#include "libstep/os/fd.h"
#include "tests/plugin/plugin_fixture.h"

#include <functional>
#include <sys/resource.h>

namespace {

constexpr int kWrong = 70;         // a child's exit code: what it saw breaks the promise above
constexpr int kPluginEnds = 1;     // the plugin ended the command or the task
constexpr unsigned kPatience = 20; // seconds a child may take

class Faults : public Plugin {
protected:
  // Returns what is wrong, "" if nothing. Runs in a child of its own.
  using Scenario = std::function<std::string()>;

  struct Outcome {
    int code;         // exit code, or the negative signal
    std::string said; // by the child, or for it by its srun in this process
  };

  static Outcome in_child(const std::function<int()>& body) {
    FILE* said = std::tmpfile();
    auto before = fake_slurm.errors.size();
    std::fflush(nullptr);
    pid_t child = fork_among_threads();
    if (child == 0) {
      dup2(fileno(said), STDERR_FILENO);
      alarm(kPatience);
      _exit(body());
    }
    int status = 0;
    waitpid(child, &status, 0);
    std::string text(65536, '\0');
    std::rewind(said);
    text.resize(std::fread(text.data(), 1, text.size(), said));
    std::fclose(said);
    for (auto i = before; i < fake_slurm.errors.size(); ++i)
      text += fake_slurm.errors[i] + '\n';
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status), text};
  }

  // The scenario with the first call failing, the second, and so on, until none is left.
  void every(FaultPlan::Kind kind, bool from_then, int spank_code, const Scenario& scenario) {
    fault_plan(); // made here, shared with the children
    constexpr int kMost = 5000;
    for (int due = 1; due < kMost; ++due) {
      if (before_)
        before_();
      auto outcome = in_child([&] {
        NoFaults own;
        arm_faults(kind, due, from_then, spank_code);
        auto wrong = scenario();
        disarm_faults();
        if (wrong.empty())
          return 0;
        std::fprintf(stderr, "WRONG: %s\n", wrong.c_str());
        return kWrong;
      });
      bool hit = fault_plan().hit;
      bool ended = outcome.code == kPluginEnds && hit &&
                   outcome.said.find("dist-train: ") != std::string::npos;
      EXPECT_TRUE(outcome.code == 0 || ended)
          << "call " << due << ", " << fault_plan().name.load() << ", fails"
          << (from_then ? " and all after it" : "") << " with " << spank_code << ": exit code "
          << outcome.code << '\n'
          << outcome.said;
      if (!hit || HasFailure())
        return;
    }
    FAIL() << "no end of calls";
  }

  // `absent`: also that a variable is not set, which only the node's first task complains about.
  void every_fault(const Scenario& scenario, bool absent = true) {
    for (bool from_then : {false, true}) {
      every(FaultPlan::kMemory, from_then, ESPANK_ERROR, scenario);
      every(FaultPlan::kAny, from_then, ESPANK_ERROR, scenario);
    }
    for (int code : {int{ESPANK_BAD_ARG}, int{ESPANK_NOT_TASK}, int{ESPANK_ENV_EXISTS},
                     int{ESPANK_NOSPACE}, int{ESPANK_NOT_REMOTE}, int{ESPANK_NOEXIST},
                     int{ESPANK_NOT_EXECD}, int{ESPANK_NOT_AVAIL}, int{ESPANK_NOT_LOCAL}})
      every(FaultPlan::kSpank, false, code, scenario);
    if (absent)
      every(FaultPlan::kSpank, false, ESPANK_ENV_NOEXIST, scenario);
  }

  // What Slurm does with an optional plugin: it ignores the hooks' codes, and ends the command when
  // the option's callback fails.
  std::string command(const char* text, bool in_srun) {
    fake_slurm.context = in_srun ? S_CTX_LOCAL : S_CTX_ALLOCATOR;
    int code = call("slurm_spank_init");
    if (code != 0 && code != -1)
      return "init returned " + std::to_string(code);
    if (text && fake_slurm.options.empty())
      return ""; // an unknown option ends the command
    if (text && option(text, 0) != 0)
      return "";
    std::vector<const char*> hooks{"slurm_spank_init_post_opt"};
    if (in_srun)
      hooks.push_back("slurm_spank_local_user_init");
    for (const char* hook : hooks)
      if (code = call(hook); code != 0 && code != -1)
        return hook + (" returned " + std::to_string(code));
    disarm_faults();
    return "";
  }

  // Both sides of a step on this machine, rank 0 of one.
  std::string step(const std::set<std::string>& expected) {
    fake_slurm.context = S_CTX_REMOTE;
    auto before = names();
    fake_slurm.options.clear();
    if (call("slurm_spank_init") != 0)
      return "init failed: the node would be drained";
    if (!fake_slurm.options.empty() && option("ddp", 1) != 0)
      return "the option's callback failed";
    if (call("slurm_spank_init_post_opt") != 0 || call("slurm_spank_task_init") != 0)
      return "a hook failed";
    if (call("slurm_spank_exit") != 0)
      return "exit failed";
    disarm_faults();
    auto now = names();
    if (now == before && fault_plan().from_then)
      return ""; // Slurm answered nothing any more: whether the step asked, nobody knows
    if (expected.contains("RANK"))
      // They follow probes of the machine, which may fail.
      now.insert({"OMP_NUM_THREADS", "GLOO_SOCKET_IFNAME", "TP_SOCKET_IFNAME"});
    return now == expected ? "" : "half an environment: " + difference(expected);
  }

  // srun and a task of its step, afresh.
  void fresh_step(int rank, int world) {
    fake_slurm.context = S_CTX_LOCAL;
    call("slurm_spank_exit");
    held_.clear();
    fake_slurm = FakeSlurm{};
    srun("ddp,wait=1");
    one_task_step();
    auto& e = fake_slurm.environment;
    e["SLURM_STEP_NUM_TASKS"] = e["SLURM_STEP_TASKS_PER_NODE"] = std::to_string(world);
    e["SLURM_GTIDS"] = world == 1 ? "0" : "0,1";
    e["SLURM_PROCID"] = e["SLURM_LOCALID"] = std::to_string(rank);
  }
  // Names that a task has when nothing fails. Rank 0's sockets stay open until the next step.
  std::set<std::string> complete_step() {
    auto before = fake_slurm.environment;
    EXPECT_EQ(call("slurm_spank_task_init"), 0);
    auto found = names();
    EXPECT_TRUE(found.contains("MASTER_PORT"));
    for (const auto& [name, value] : fake_slurm.environment)
      if (name.starts_with("DIST_TRAIN_") && name.ends_with("_FD"))
        held_.emplace_back(std::stoi(value));
    fake_slurm.environment = before;
    return found;
  }

  std::vector<dist_train::Fd> held_;
  std::function<void()> before_; // in the parent, before each run
  static std::set<std::string> names() {
    std::set<std::string> found;
    for (const auto& [name, value] : fake_slurm.environment)
      found.insert(name);
    return found;
  }
  static std::string difference(const std::set<std::string>& expected) {
    std::string text;
    for (const auto& name : expected)
      if (!names().contains(name))
        text += " -" + name;
    for (const auto& name : names())
      if (!expected.contains(name))
        text += " +" + name;
    return text;
  }
};

TEST_F(Faults, ASrunThatAskedTellsItsTasksEverythingOrEnds) {
  every_fault([&]() -> std::string {
    auto wrong = command("ddp,wait=1", true);
    int told = 0;
    for (const char* name :
         {"SLURM_DIST_TRAIN_OPTIONS", "SLURM_DIST_TRAIN_TOKEN", "SLURM_DIST_TRAIN_BROKER"})
      told += getenv(name) != nullptr;
    bool refused = fake_slurm.options.empty() || !fake_slurm.errors.empty();
    if (wrong.empty() && told != 3 && !(told == 0 && refused))
      wrong = "half of what the tasks need is there";
    return call("slurm_spank_exit") == 0 ? wrong : "exit failed";
  });
}

TEST_F(Faults, ASrunThatDidNotAskGoesOn) {
  every_fault([&]() -> std::string {
    auto wrong = command(nullptr, true);
    if (call("slurm_spank_exit") != 0)
      return "exit failed";
    for (const char* name :
         {"SLURM_DIST_TRAIN_OPTIONS", "SLURM_DIST_TRAIN_TOKEN", "SLURM_KILL_BAD_EXIT"})
      if (getenv(name))
        return std::string("it set ") + name;
    return wrong;
  });
}

TEST_F(Faults, SbatchAndSallocGoOn) {
  for (const char* text : {"ddp", static_cast<const char*>(nullptr)})
    every_fault([&]() -> std::string {
      auto wrong = command(text, false);
      return call("slurm_spank_exit") == 0 ? wrong : "exit failed";
    });
}

TEST_F(Faults, ATaskThatAskedIsCompleteOrEnds) {
  fresh_step(0, 1);
  auto expected = complete_step();
  before_ = [&] { fresh_step(0, 1); };
  every_fault([&] { return step(expected); });
}

TEST_F(Faults, ATaskThatIsNotRankZeroIsCompleteOrEnds) {
  before_ = [&] {
    fresh_step(0, 2);
    auto rank_one = fake_slurm.environment;
    rank_one["SLURM_PROCID"] = rank_one["SLURM_LOCALID"] = "1";
    complete_step();
    fake_slurm.environment = rank_one;
  };
  before_();
  auto expected = complete_step();
  every_fault([&] { return step(expected); }, false);
}

TEST_F(Faults, StepsThatDidNotAskAreNotChanged) {
  one_task_step();
  auto unchanged = names();
  // As slurmstepd of such a step does it: no option, no callback.
  every_fault([&]() -> std::string {
    fake_slurm.context = S_CTX_REMOTE;
    for (const char* hook : {"slurm_spank_init", "slurm_spank_init_post_opt",
                             "slurm_spank_task_init", "slurm_spank_exit"})
      if (call(hook) != 0)
        return std::string(hook) + " failed";
    return names() == unchanged ? "" : "changed:" + difference(unchanged);
  });
}

// sbatch hands the option to the batch step's slurmstepd; the step of the script is none of ours.
TEST_F(Faults, BatchStepsAreNotChanged) {
  one_task_step();
  fake_slurm.step = 0xfffffffb;
  auto unchanged = names();
  every_fault([&] { return step(unchanged); });
}

TEST_F(Faults, SlurmdAndJobScriptsCallNothingThatCouldFail) {
  for (auto context : {S_CTX_SLURMD, S_CTX_JOB_SCRIPT}) {
    fake_slurm.context = context;
    for (auto kind : {FaultPlan::kAny, FaultPlan::kMemory}) {
      arm_faults(kind, 1, true, ESPANK_ERROR);
      for (const char* hook : {"slurm_spank_init", "slurm_spank_init_post_opt", "slurm_spank_exit"})
        EXPECT_EQ(call(hook), 0);
      disarm_faults();
      EXPECT_FALSE(fault_plan().hit) << fault_plan().name.load();
    }
  }
}

// srun's thread meets the fault while a task talks to it; neither srun nor the task may die of it
// without a word, or hang.
TEST_F(Faults, SrunSurvivesFaultsOfItsRendezvous) {
  auto scenario = [&]() -> std::string {
    disarm_faults();
    fresh_step(0, 1);
    resume_faults();
    auto task = in_child([&] {
      disarm_faults();
      close_range(3, ~0U, 0); // a task is no child of srun and has none of its sockets
      return call("slurm_spank_task_init");
    });
    if (task.code != 0 &&
        (task.code != kPluginEnds || task.said.find("dist-train: ") == std::string::npos))
      return "the task ended with " + std::to_string(task.code) + ": " + task.said;
    fake_slurm.context = S_CTX_LOCAL;
    return call("slurm_spank_exit") == 0 ? "" : "exit failed";
  };
  for (auto kind : {FaultPlan::kMemory, FaultPlan::kAny})
    for (bool from_then : {false, true})
      every(kind, from_then, ESPANK_ERROR, scenario);
}

} // namespace
