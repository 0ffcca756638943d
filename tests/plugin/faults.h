// SPDX-License-Identifier: BSD-3-Clause
// Faults on order: while armed, the n-th call that can fail does. The calls are those of the fake
// Slurm (spank_*) and those of libc that this program defines over libc's own (faults.cpp), so the
// plugin's code is the shipped one. The plan lies in memory that forked children share, so that a
// parent sees what happened; armed is each process for itself, and its children after it.
#pragma once

#include <atomic>

struct FaultPlan {
  enum Kind { kAny, kMemory, kSpank };
  std::atomic<int> due;          // ordinal of the call that fails; 0: none
  std::atomic<int> count;        // calls so far
  std::atomic<bool> hit;         // it happened
  std::atomic<Kind> kind;        // which calls count; kAny: all but memory
  std::atomic<bool> from_then;   // all later calls fail as well
  std::atomic<int> spank_code;   // what a spank_* call answers
  std::atomic<const char*> name; // of the call that failed
};

// One for this program and its children.
FaultPlan& fault_plan();

// Arms: call `due` of `kind` fails, with from_then also all after it.
void arm_faults(FaultPlan::Kind kind, int due, bool from_then, int spank_code);
void disarm_faults();
void resume_faults(); // as they were

// Whether this call is to fail; counts it.
bool fault_due(FaultPlan::Kind kind, const char* name);

// In between, calls of this thread neither count nor fail: those of the stand-in and of the test.
class NoFaults {
public:
  NoFaults();
  ~NoFaults();
};

// In between they do again: the plugin's.
class WithFaults {
public:
  WithFaults();
  ~WithFaults();

private:
  int before_;
};
