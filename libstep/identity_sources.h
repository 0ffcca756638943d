// SPDX-License-Identifier: BSD-3-Clause
// The sources behind find_identity(), and their way of reading variables. Only identity*.cpp
// include this.
#pragma once

#include <string_view>

#include "libstep/identity.h"

namespace dist_train {

// Reads one environment and remembers the first thing wrong with it, so that a source can read all
// it needs in a row and look at problem() once. An empty value counts as missing.
class Variables {
public:
  explicit Variables(const Environment& environment) : environment_(environment) {}

  bool has(std::string_view name) const { return find(name) != nullptr; }
  std::string text(std::string_view name) const; // "" when missing
  std::string need_text(std::string_view name);
  // A decimal number from `low` to `high`.
  std::uint32_t number(std::string_view name, std::uint32_t low, std::uint32_t high,
                       std::uint32_t when_missing);
  std::uint32_t need_number(std::string_view name, std::uint32_t low, std::uint32_t high);
  // The variable, when set, must agree with what is known from elsewhere.
  void expect(std::string_view name, std::uint32_t value, std::string_view because);
  void complain(Error error);
  const std::optional<Error>& problem() const { return problem_; }

private:
  const std::string* find(std::string_view name) const;

  const Environment& environment_;
  std::optional<Error> problem_;
};

// Each is called only when its variables are there.
Result<Identity> plugin_identity(Variables variables, const std::string& host_name);
Result<Identity> slurm_identity(Variables variables, const std::string& host_name);
Result<Identity> launcher_identity(Variables variables, const std::string& host_name);

// Whether the variables are those of a task of a step that srun started.
bool in_slurm_step(const Variables& variables);

// Token and port sequence from what all ranks share, for sources without a secret.
void derive_meeting(Identity& identity, std::string_view shared);

inline constexpr std::uint32_t kMaxWorld = 1u << 20;

} // namespace dist_train
