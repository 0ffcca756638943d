/* SPDX-License-Identifier: BSD-3-Clause */
/* Ranks at different iterations, which never wait for each other, stop at one and the same. */
#define _GNU_SOURCE
#include "world.h"

#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static const int kOne[] = {1};
static const int kTwo[] = {1, 1};
static const int kFour[] = {2, 1, 1};

/* After its stop: a rank's own iteration must be everybody's. */
static int agrees(step_t* s, int64_t stopped) {
  int64_t all[WORLD_MAX];
  CHECK(s, step_all_gather(s, &stopped, sizeof stopped, all, 60) == STEP_OK);
  for (int i = 0; i < step_world_size(s); ++i)
    if (all[i] != stopped) {
      fprintf(stderr, "rank %d stopped at %ld, rank %d at %ld\n", step_rank(s), (long)stopped, i,
              (long)all[i]);
      return 1;
    }
  return 0;
}

static int64_t run_until_stop(step_t* s, int64_t from, unsigned pause_us) {
  int64_t i = from;
  for (; !step_should_stop(s, i) && step_error(s)[0] == '\0'; ++i)
    if (pause_us > 0)
      usleep(pause_us);
  return i;
}

struct race {
  unsigned seed;
};

/* Free-running loops, from a barrier on; one or two ranks ask at a random moment. */
static int race_body(struct world* world, int rank) {
  unsigned seed = ((struct race*)world->data)->seed * 64 + (unsigned)rank;
  step_t* s = opened();
  CHECK(s, step_barrier(s, 60) == STEP_OK);
  const int64_t asks = rank >= 2 ? 1 + rand_r(&seed) % 500 : -1;
  const unsigned pause = 1 + (unsigned)rand_r(&seed) % 300; /* the slowest has to catch up */
  int64_t i = 1;
  for (; !step_should_stop(s, i); ++i) {
    CHECK(s, step_error(s)[0] == '\0');
    if (i == asks)
      CHECK(s, step_request_stop(s, "enough") == STEP_OK);
    usleep(pause);
  }
  CHECK(s, strcmp(step_stop_reason(s), "enough") == 0);
  CHECK(s, step_should_stop(s, i + 7) == 1 && step_should_stop(s, i - 1) == 0);
  CHECK(s, agrees(s, i) == 0);
  step_close(s);
  return 0;
}

static void test_one_iteration(void** state) {
  (void)state;
  for (unsigned seed = 0; seed < 25; ++seed) {
    struct race race = {seed};
    run_world(3, kFour, launch_by_plugin, race_body, &race);
  }
}

/* A rank deep in something else does not keep the stop from being agreed on, and answers by it. */
static int busy_body(struct world* world, int rank) {
  (void)world;
  step_t* s = opened();
  CHECK(s, step_should_stop(s, 1) == 0);
  CHECK(s, step_barrier(s, 60) == STEP_OK);
  if (rank == 1) {
    CHECK(s, await_key(s, "stopped")); /* by rank 0, while this one still is at iteration 1 */
  } else {
    CHECK(s, step_should_stop(s, 2) == 0 && step_request_stop(s, "now") == STEP_OK);
    CHECK(s, step_should_stop(s, 3) == 1 && signal_key(s, "stopped"));
  }
  CHECK(s, agrees(s, run_until_stop(s, rank == 1 ? 2 : 3, 0)) == 0);
  step_close(s);
  return 0;
}

static void test_busy_rank(void** state) {
  (void)state;
  run_world(2, kTwo, launch_by_plugin, busy_body, NULL);
}

/* Asked for before anybody's first iteration, and before rank 1 is there at all. */
static int early_body(struct world* world, int rank) {
  int* pipe_ends = world->data;
  char byte;
  if (rank == 1)
    CHECK(NULL, read(pipe_ends[0], &byte, 1) == 1);
  step_t* s = opened();
  if (rank == 0) {
    CHECK(s, step_request_stop(s, "early") == STEP_OK && step_should_stop(s, 41) == 1);
    CHECK(s, write(pipe_ends[1], "", 1) == 1);
  }
  CHECK(s, agrees(s, run_until_stop(s, 41, 0)) == 0);
  CHECK(s, strcmp(step_stop_reason(s), "early") == 0);
  step_close(s);
  return 0;
}

static void test_early_stop(void** state) {
  (void)state;
  int ends[2];
  assert_int_equal(pipe(ends), 0);
  run_world(2, kTwo, launch_by_plugin, early_body, ends);
  close(ends[0]);
  close(ends[1]);
}

/* A rank that dies meanwhile is not waited for. */
static int dying_body(struct world* world, int rank) {
  (void)world;
  step_t* s = opened();
  CHECK(s, step_should_stop(s, 1) == 0 && step_barrier(s, 60) == STEP_OK);
  if (rank == 1) {
    (void)step_request_stop(s, "dying");
    raise(SIGKILL);
  }
  if (rank == 0) {
    CHECK(s, run_until_stop(s, 2, 100) >= 2);
    int lost = -1;
    CHECK(s, step_wait_lost(s, &lost, 60) == STEP_OK && lost == 1);
  } else { /* the store may go at any time */
    (void)run_until_stop(s, 2, 100);
  }
  step_close(s);
  return 0;
}

static void test_dying_rank(void** state) {
  (void)state;
  struct world world;
  world_init(&world, 3, kFour);
  for (int rank = 0; rank < world.size; ++rank)
    world_spawn(&world, rank, launch_by_plugin, dying_body);
  for (int rank = 0; rank < world.size; ++rank)
    assert_int_equal(world_wait(&world, rank), rank == 1 ? 1000 + SIGKILL : 0);
  world_free(&world);
}

/* Without rank 0 nothing can be agreed on: no answer but 0, and no hang. */
static int orphan_body(struct world* world, int rank) {
  (void)world;
  step_t* s = opened();
  CHECK(s, step_barrier(s, 60) == STEP_OK);
  if (rank == 0) {
    CHECK(s, await_key(s, "here"));
    raise(SIGKILL);
  }
  (void)signal_key(s, "here");
  int lost = -1;
  CHECK(s, step_wait_lost(s, &lost, 60) == STEP_OK && lost == 0);
  CHECK(s, step_request_stop(s, "late") == STEP_ERR_LOST);
  CHECK(s, step_should_stop(s, 1) == 0 && says(s, "rank 0 (node01, local 0"));
  step_close(s);
  return 0;
}

static void test_without_rank_zero(void** state) {
  (void)state;
  struct world world;
  world_init(&world, 2, kTwo);
  for (int rank = 0; rank < 2; ++rank)
    world_spawn(&world, rank, launch_by_plugin, orphan_body);
  assert_int_equal(world_wait(&world, 0), 1000 + SIGKILL);
  assert_int_equal(world_wait(&world, 1), 0);
  world_free(&world);
}

/* One rank is signalled; all stop. */
static int signal_body(struct world* world, int rank) {
  int* ready = world->data;
  step_t* s = opened();
  CHECK(s, step_catch_signals(s, NULL, 0) == STEP_OK);
  CHECK(s, step_barrier(s, 60) == STEP_OK);
  if (rank == 3)
    CHECK(s, write(ready[1], "", 1) == 1);
  CHECK(s, agrees(s, run_until_stop(s, 1, 100)) == 0);
  CHECK(s, strcmp(step_stop_reason(s), "SIGUSR1 reached rank 3 (node03)") == 0);
  CHECK(s, step_catch_signals(s, NULL, 0) == STEP_ERR_ARGUMENT && says(s, "already"));
  step_close(s);
  struct sigaction now;
  CHECK(NULL, sigaction(SIGTERM, NULL, &now) == 0 && now.sa_handler == SIG_DFL);
  return 0;
}

static void test_signal(void** state) {
  (void)state;
  int ready[2];
  char byte;
  assert_int_equal(pipe(ready), 0);
  struct world world;
  world_init(&world, 3, kFour);
  world.data = ready;
  for (int rank = 0; rank < 4; ++rank)
    world_spawn(&world, rank, launch_by_plugin, signal_body);
  assert_int_equal(read(ready[0], &byte, 1), 1);
  kill(world.pids[3], SIGUSR1);
  for (int rank = 0; rank < 4; ++rank)
    assert_int_equal(world_wait(&world, rank), 0);
  close(ready[0]);
  close(ready[1]);
  world_free(&world);
}

static int ended_by(pid_t child) {
  int status = 0;
  return waitpid(child, &status, 0) == child && WIFSIGNALED(status) ? WTERMSIG(status) : -1;
}

/* A data loader's worker: Slurm's signal passes it by, its parent's ends it. */
static int worker_body(struct world* world, int rank) {
  (void)world;
  (void)rank;
  step_t* s = opened();
  const int signals[] = {SIGTERM, SIGUSR2};
  CHECK(s, step_catch_signals(s, signals, 2) == STEP_OK);
  int told[2];
  CHECK(s, pipe(told) == 0);
  const pid_t worker = fork();
  if (worker == 0) {
    if (write(told[1], "", 1) != 1)
      _exit(1);
    for (;;)
      pause();
  }
  char byte;
  CHECK(s, read(told[0], &byte, 1) == 1);
  const pid_t stranger = fork(); /* as slurmstepd would */
  if (stranger == 0)
    _exit(kill(worker, SIGTERM) == 0 && kill(worker, SIGUSR2) == 0 ? 0 : 1);
  int status = -1;
  CHECK(s, waitpid(stranger, &status, 0) == stranger && status == 0);
  CHECK(s, step_should_stop(s, 1) == 0); /* nothing reached this process */
  usleep(100000);                        /* a worker that dies of it has the time to */
  CHECK(s, waitpid(worker, &status, WNOHANG) == 0);
  CHECK(s, kill(worker, SIGTERM) == 0 && ended_by(worker) == SIGTERM);
  raise(SIGUSR2);
  CHECK(s, step_should_stop(s, 2) == 1);
  CHECK(s, strcmp(step_stop_reason(s), "SIGUSR2 reached rank 0 (node01)") == 0);
  const int none[] = {SIGKILL};
  step_close(s);
  s = opened();
  CHECK(s, step_catch_signals(s, none, 1) == STEP_ERR_ARGUMENT && says(s, "signal 9"));
  CHECK(s, step_should_stop(s, 1) == 0); /* what came before is the other handle's */
  step_close(s);
  return 0;
}

static void test_workers(void** state) {
  (void)state;
  run_world(1, kOne, launch_by_plugin, worker_body, NULL);
}

static void launch_with_end(struct world* world, int rank) {
  launch_by_plugin(world, rank);
  setenv("SLURM_JOB_ID", "4711", 1);
  set_number("SLURM_JOB_END_TIME", (long)time(NULL) + 4);
}

static int time_body(struct world* world, int rank) {
  (void)world;
  (void)rank;
  step_t* s = NULL;
  const step_options_t options = {.size = sizeof options, .connect_seconds = 60, .stop_seconds = 2};
  CHECK(s, step_open(&s, &options) == STEP_OK);
  const double left = step_seconds_left(s);
  CHECK(s, left >= 0 && left <= 4);
  CHECK(s, agrees(s, run_until_stop(s, 1, 1000)) == 0);
  CHECK(s, strcmp(step_stop_reason(s), "the job's time limit is near") == 0);
  CHECK(s, step_seconds_left(s) < left);
  step_close(s);
  return 0;
}

static void test_time_limit(void** state) {
  (void)state;
  run_world(2, kTwo, launch_with_end, time_body, NULL);
}

static int no_job_body(struct world* world, int rank) {
  (void)world;
  (void)rank;
  step_t* s = opened();
  CHECK(s, isinf(step_seconds_left(s)));
  CHECK(s, step_requeue(s) == STEP_ERR_SYSTEM && says(s, "belongs to no Slurm job"));
  CHECK(s, step_request_stop(s, NULL) == STEP_ERR_ARGUMENT);
  step_close(s);
  return step_should_stop(NULL, 1) == 0 && isinf(step_seconds_left(NULL)) &&
                 step_stop_reason(NULL)[0] == '\0' && step_requeue(NULL) == STEP_ERR_ARGUMENT
             ? 0
             : 1;
}

static void test_no_job(void** state) {
  (void)state;
  run_world(1, kOne, launch_by_torchrun, no_job_body, NULL);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_one_iteration),
      cmocka_unit_test(test_busy_rank),
      cmocka_unit_test(test_early_stop),
      cmocka_unit_test(test_dying_rank),
      cmocka_unit_test(test_without_rank_zero),
      cmocka_unit_test(test_signal),
      cmocka_unit_test(test_workers),
      cmocka_unit_test(test_time_limit),
      cmocka_unit_test(test_no_job),
  };
  return cmocka_run_group_tests_name("stop", tests, NULL, NULL);
}
