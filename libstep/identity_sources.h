// SPDX-License-Identifier: BSD-3-Clause
// The sources behind find_identity(), and their way of reading variables. Only identity*.cpp
// include this.
#pragma once

#include <string_view>

#include "libstep/identity.h"

namespace dist_train {

inline constexpr std::string_view kPassOn =
    "start the program by the launcher, and pass its whole environment on";
inline constexpr std::string_view kAddressHint =
    "set it to a name or an address of rank 0's host, the same in all ranks";
inline constexpr std::string_view kPortHint =
    "set it to a free port of rank 0's host, the same in all ranks and another for each job";

// Reads one environment and remembers the first thing wrong with it, so that a source can read all
// it needs in a row and look at problem() once. An empty value counts as missing.
class Variables {
public:
  explicit Variables(const Environment& environment) : environment_(environment) {}

  bool has(std::string_view name) const { return find(name) != nullptr; }
  std::string text(std::string_view name) const; // "" when missing
  // `hint` is what to do where it is missing.
  std::string need_text(std::string_view name, std::string_view hint = kPassOn);
  // A decimal number from `low` to `high`.
  std::uint32_t number(std::string_view name, std::uint32_t low, std::uint32_t high,
                       std::uint32_t when_missing);
  std::uint32_t need_number(std::string_view name, std::uint32_t low, std::uint32_t high,
                            std::string_view hint = kPassOn);
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
Result<Identity> torchrun_identity(Variables variables, const std::string& host_name);
Result<Identity> mpirun_identity(Variables variables, const std::string& host_name);
Result<Identity> bare_identity(Variables variables, const std::string& host_name);

// Complains of an address, of the variable `name`, that is too long for a host name.
void expect_host_name(Variables& variables, std::string_view name, const std::string& address);
// One process on each node.
void place_alone(Identity& identity, const std::string& host_name);

// Whether the variables are those of a task of a step that srun started.
bool in_slurm_step(const Variables& variables);

// Whether mpirun started this process; and that what it says agrees with the identity found.
bool by_mpirun(const Variables& variables);
void expect_mpirun_to_agree(Variables& variables, const Identity& identity,
                            std::string_view because);

// Whether the variables are those of processes without a launcher that is known by its own.
bool has_bare_variables(const Variables& variables);

// Token and port sequence from what all ranks share, for sources without a secret.
void derive_meeting(Identity& identity, std::string_view shared);
// The same where it is rank 0's address and port, the size of the world, and `run`.
void derive_meeting_at_master(Identity& identity, const std::string& run);

inline constexpr std::uint32_t kMaxWorld = 1u << 20;
inline constexpr std::size_t kMaxHostName = 255;

} // namespace dist_train
