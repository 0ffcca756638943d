/* SPDX-License-Identifier: BSD-3-Clause */
/* slurmctld hangs, and with it whoever is asked for the job's time: the step closes all the same.
 */
#define _GNU_SOURCE
#include "world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static const int kOne[] = {1};

static int closes_at_once(step_t* s) {
  const double since = seconds_now();
  step_close(s);
  return seconds_now() - since < 5 ? 0 : 1;
}

static void launch_with_stuck_squeue(struct world* world, int rank) {
  const char* folder = world->data;
  char path[4096];
  launch_by_plugin(world, rank);
  setenv("SLURM_JOB_ID", "4711", 1);
  snprintf(path, sizeof path, "%s:/usr/bin:/bin", folder);
  setenv("PATH", path, 1);
  setenv("ASKED", folder, 1);
}

static int stuck_squeue_body(struct world* world, int rank) {
  char path[4096];
  (void)rank;
  snprintf(path, sizeof path, "%s/asked", (const char*)world->data);
  step_t* s = opened();
  CHECK(s, step_should_stop(s, 1) == 0);
  while (access(path, F_OK) != 0)
    usleep(10000);
  return closes_at_once(s);
}

static void test_stuck_squeue(void** state) {
  (void)state;
  char folder[] = "/tmp/stuck-squeue-XXXXXX", path[64];
  assert_non_null(mkdtemp(folder));
  snprintf(path, sizeof path, "%s/squeue", folder);
  FILE* file = fopen(path, "w");
  assert_non_null(file);
  fputs("#!/bin/sh\ntouch \"$ASKED/asked\"\nexec sleep 1000\n", file);
  fclose(file);
  assert_int_equal(chmod(path, 0755), 0);
  run_world(1, kOne, launch_with_stuck_squeue, stuck_squeue_body, folder);
  unlink(path);
  snprintf(path, sizeof path, "%s/asked", folder);
  unlink(path);
  rmdir(folder);
}

static void launch_with_silent_srun(struct world* world, int rank) {
  struct sockaddr_in address = {.sin_family = AF_INET};
  socklen_t size = sizeof address;
  char text[64];
  launch_by_plugin(world, rank);
  setenv("SLURM_JOB_ID", "4711", 1);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  int* listener = world->data;
  *listener = socket(AF_INET, SOCK_STREAM, 0);
  if (bind(*listener, (struct sockaddr*)&address, sizeof address) != 0 ||
      listen(*listener, 1) != 0 || getsockname(*listener, (struct sockaddr*)&address, &size) != 0)
    _exit(1);
  snprintf(text, sizeof text, "127.0.0.1:%d", ntohs(address.sin_port));
  setenv("DIST_TRAIN_BROKER", text, 1);
}

static int silent_srun_body(struct world* world, int rank) {
  char byte;
  (void)rank;
  step_t* s = opened();
  CHECK(s, step_should_stop(s, 1) == 0);
  const int connection = accept(*(int*)world->data, NULL, NULL);
  CHECK(s, read(connection, &byte, 1) == 1);
  return closes_at_once(s);
}

static void test_silent_srun(void** state) {
  (void)state;
  int listener = -1;
  run_world(1, kOne, launch_with_silent_srun, silent_srun_body, &listener);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_stuck_squeue),
      cmocka_unit_test(test_silent_srun),
  };
  return cmocka_run_group_tests_name("close", tests, NULL, NULL);
}
