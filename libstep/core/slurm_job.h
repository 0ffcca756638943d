// SPDX-License-Identifier: BSD-3-Clause
// What is asked of Slurm about the job that a step belongs to: by srun's plugin on behalf of a
// task, or by libstep where no srun of ours listens. Pure: the words of the commands, and their
// answers.
#pragma once

#include "libstep/core/environment.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace dist_train {

// The job as scontrol names it: "4711", "4700_3" for a task of an array, the leader of a
// heterogeneous job. "" where the variables are not those of a job.
std::string job_text(const Environment& environment);

std::vector<std::string> requeue_command(const std::string& job);
std::vector<std::string> time_left_command(const std::string& job);

// Seconds by the answer to time_left_command(), "1-02:03:04" and its shorter forms; UNLIMITED is
// INT64_MAX. Nothing where it says something else.
std::optional<std::int64_t> parse_time_left(std::string_view text);

} // namespace dist_train
