// SPDX-License-Identifier: BSD-3-Clause
#include "libstep/core/slurm_job.h"

#include <gtest/gtest.h>

namespace dist_train {
namespace {

TEST(SlurmJob, NamesTheJobAsScontrolDoes) {
  EXPECT_EQ(job_text({}), "");
  EXPECT_EQ(job_text({{"SLURM_JOB_ID", "4711"}}), "4711");
  EXPECT_EQ(
      job_text(
          {{"SLURM_JOB_ID", "4712"}, {"SLURM_ARRAY_JOB_ID", "4700"}, {"SLURM_ARRAY_TASK_ID", "3"}}),
      "4700_3");
  EXPECT_EQ(job_text({{"SLURM_JOB_ID", "4713"}, {"SLURM_JOB_ID_HET_GROUP_0", "4712"}}), "4712");
}

TEST(SlurmJob, WhatIsNoNumberIsNoJob) {
  for (const char* bad : {"", "x", "-1", "4294967296", "4711;reboot", "--help"})
    EXPECT_EQ(job_text({{"SLURM_JOB_ID", bad}}), "") << bad;
}

TEST(SlurmJob, TimeLeftInAllItsForms) {
  EXPECT_EQ(parse_time_left("0:00"), 0);
  EXPECT_EQ(parse_time_left("4:59"), 299);
  EXPECT_EQ(parse_time_left("1:02:03"), 3723);
  EXPECT_EQ(parse_time_left("2-01:02:03"), 2 * 86400 + 3723);
  EXPECT_EQ(parse_time_left("UNLIMITED"), INT64_MAX);
  for (const char* bad : {"", "5", "INVALID", "NOT_SET", "1:60", "1-02:03", "x:01", "1:2:3:4",
                          "-1:00", "999999-00:00:00", "slurm_load_jobs error"})
    EXPECT_EQ(parse_time_left(bad), std::nullopt) << bad;
}

} // namespace
} // namespace dist_train
