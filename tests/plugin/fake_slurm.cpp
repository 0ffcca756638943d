// SPDX-License-Identifier: BSD-3-Clause
#include "tests/plugin/fake_slurm.h"

#include "tests/plugin/faults.h"

#include <array>
#include <cstdarg>
#include <cstdio>
#include <cstring>

FakeSlurm fake_slurm;

namespace {

// S_JOB_ENV hands out an array in the manner of environ; it lives until the next call.
char** environment_array() {
  static std::vector<std::string> strings;
  static std::vector<char*> pointers;
  strings.clear();
  pointers.clear();
  for (const auto& [name, value] : fake_slurm.environment)
    strings.push_back(name + '=' + value);
  for (auto& text : strings)
    pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers.data();
}

// Some releases have an enumeration for these, some numbers.
spank_err_t code(int value) { return static_cast<spank_err_t>(value); }

std::string formatted(const char* format, va_list arguments) {
  std::array<char, 4096> text{};
  std::vsnprintf(text.data(), text.size(), format, arguments);
  return text.data();
}

} // namespace

#define FAKE_EXPORT extern "C" __attribute__((visibility("default")))

FAKE_EXPORT spank_context_t spank_context() { return fake_slurm.context; }

FAKE_EXPORT spank_err_t spank_option_register(spank_t, spank_option* option) {
  if (fault_due(FaultPlan::kSpank, __func__))
    return code(fault_plan().spank_code);
  NoFaults own;
  ++fake_slurm.calls;
  fake_slurm.options.push_back(*option);
  return code(ESPANK_SUCCESS);
}

FAKE_EXPORT spank_err_t spank_get_item(spank_t, spank_item_t item, ...) {
  if (fault_due(FaultPlan::kSpank, __func__))
    return code(fault_plan().spank_code);
  NoFaults own;
  ++fake_slurm.calls;
  va_list arguments;
  va_start(arguments, item);
  void* out = va_arg(arguments, void*);
  va_end(arguments);
  switch (item) {
  case S_JOB_STEPID:
    *static_cast<std::uint32_t*>(out) = fake_slurm.step;
    return code(ESPANK_SUCCESS);
  case S_SLURM_VERSION_MAJOR:
    *static_cast<char**>(out) = fake_slurm.major.data();
    return code(ESPANK_SUCCESS);
  case S_SLURM_VERSION_MINOR:
    *static_cast<char**>(out) = fake_slurm.minor.data();
    return code(ESPANK_SUCCESS);
  case S_JOB_ENV:
    *static_cast<char***>(out) = environment_array();
    return code(ESPANK_SUCCESS);
  default:
    return code(ESPANK_BAD_ARG);
  }
}

FAKE_EXPORT spank_err_t spank_getenv(spank_t, const char* name, char* out, int size) {
  if (fault_due(FaultPlan::kSpank, __func__))
    return code(fault_plan().spank_code);
  NoFaults own;
  ++fake_slurm.calls;
  auto found = fake_slurm.environment.find(name);
  if (found == fake_slurm.environment.end())
    return code(ESPANK_ENV_NOEXIST);
  if (found->second.size() >= static_cast<std::size_t>(size))
    return code(ESPANK_NOSPACE);
  std::strcpy(out, found->second.c_str());
  return code(ESPANK_SUCCESS);
}

FAKE_EXPORT spank_err_t spank_setenv(spank_t, const char* name, const char* value, int) {
  if (fault_due(FaultPlan::kSpank, __func__))
    return code(fault_plan().spank_code);
  NoFaults own;
  ++fake_slurm.calls;
  fake_slurm.environment[name] = value;
  return code(ESPANK_SUCCESS);
}

FAKE_EXPORT spank_err_t spank_unsetenv(spank_t, const char* name) {
  if (fault_due(FaultPlan::kSpank, __func__))
    return code(fault_plan().spank_code);
  NoFaults own;
  ++fake_slurm.calls;
  fake_slurm.environment.erase(name);
  return code(ESPANK_SUCCESS);
}

FAKE_EXPORT const char* spank_strerror(spank_err_t) { return "a SPANK error"; }

FAKE_EXPORT void slurm_verbose(const char* format, ...) {
  NoFaults own;
  va_list arguments;
  va_start(arguments, format);
  fake_slurm.verbose.push_back(formatted(format, arguments));
  va_end(arguments);
}

FAKE_EXPORT void slurm_error(const char* format, ...) {
  NoFaults own;
  va_list arguments;
  va_start(arguments, format);
  fake_slurm.errors.push_back(formatted(format, arguments));
  va_end(arguments);
  std::fprintf(stderr, "error: %s\n", fake_slurm.errors.back().c_str());
}
