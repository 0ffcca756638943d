// SPDX-License-Identifier: BSD-3-Clause
#include "libstep/core/slurm_job.h"

#include "libstep/core/text.h"

namespace dist_train {

std::string job_text(const Environment& environment) {
  const auto number = [&](std::string_view name) {
    const auto value = value_of(environment, name);
    return std::string(parse_number(value, UINT32_MAX) ? value : "");
  };
  const std::string array = number("SLURM_ARRAY_JOB_ID"), task = number("SLURM_ARRAY_TASK_ID");
  if (!array.empty() && !task.empty())
    return array + "_" + task;
  const std::string leader = number("SLURM_JOB_ID_HET_GROUP_0");
  return leader.empty() ? number("SLURM_JOB_ID") : leader;
}

std::vector<std::string> requeue_command(const std::string& job) {
  return {"scontrol", "requeue", job};
}

std::vector<std::string> time_left_command(const std::string& job) {
  return {"squeue", "--noheader", "--states=all", "--jobs=" + job, "--format=%L"};
}

std::optional<std::int64_t> parse_time_left(std::string_view text) {
  if (text == "UNLIMITED")
    return INT64_MAX;
  std::int64_t days = 0;
  const bool has_days = text.find('-') != std::string_view::npos;
  if (has_days) {
    const auto number = parse_number(text.substr(0, text.find('-')), 100'000);
    if (!number)
      return std::nullopt;
    days = static_cast<std::int64_t>(*number);
    text.remove_prefix(text.find('-') + 1);
  }
  const auto parts = split(text, ':');
  if (parts.size() < 2 || parts.size() > 3 || (has_days && parts.size() != 3))
    return std::nullopt;
  std::int64_t seconds = 0;
  for (const auto part : parts) {
    const auto number = parse_number(part, 59);
    if (!number)
      return std::nullopt;
    seconds = seconds * 60 + static_cast<std::int64_t>(*number);
  }
  return days * 24 * 3600 + seconds;
}

} // namespace dist_train
