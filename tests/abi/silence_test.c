/* SPDX-License-Identifier: BSD-3-Clause */
/* Ranks that are stopped, not ended: noticed in bounded time, unless the whole step was. */
#define _GNU_SOURCE
#include "world.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <unistd.h>

#include <cmocka.h>

static const int kFour[] = {2, 1, 1};

struct plan {
  int victim;
  int told[2];  /* a byte from each rank that is ready */
  int go_on[2]; /* and one to each */
};

static step_t* opened_with_silence(double seconds) {
  step_t* s = NULL;
  const step_options_t options = {
      .size = sizeof options, .connect_seconds = 60, .silence_seconds = seconds};
  if (step_open(&s, &options) != STEP_OK) {
    fprintf(stderr, "step_open: %s\n", step_error(NULL));
    _exit(2);
  }
  return s;
}

static int silent_body(struct world* world, int rank) {
  struct plan* plan = world->data;
  char who[96];
  snprintf(who, sizeof who, "rank %d (node%02d, local %d, last at iteration %d)", plan->victim,
           world_node_of(world, plan->victim) + 1, plan->victim == 1, 1831 + plan->victim);
  step_t* s = opened_with_silence(3);
  CHECK(s, step_should_stop(s, 1831 + rank) == 0);
  /* Until everybody has told of its iteration. */
  int lost = -1;
  CHECK(s, step_wait_lost(s, &lost, 2.5) == STEP_ERR_TIMEOUT);
  CHECK(s, step_barrier(s, 60) == STEP_OK);
  CHECK(s, write(plan->told[1], "", 1) == 1);
  char byte;
  if (rank == plan->victim) /* stopped in here */
    CHECK(s, read(plan->go_on[0], &byte, 1) == 1);
  const step_err_t code = step_barrier(s, -1);
  if (rank == plan->victim && rank == 0) {
    /* It did not notice. The others have been at this barrier, and left: nobody is at the next. */
    CHECK(s, code == STEP_ERR_LOST || (code == STEP_OK && step_barrier(s, 60) == STEP_ERR_LOST));
  } else {
    CHECK(s, code == STEP_ERR_LOST && says(s, who) && says(s, "nothing was heard of it for 3 s"));
    CHECK(s, step_wait_lost(s, &lost, 60) == STEP_OK && lost == plan->victim && says(s, who));
  }
  step_close(s);
  return 0;
}

static void start(struct world* world, struct plan* plan, rank_body body) {
  assert_int_equal(pipe(plan->told), 0);
  world_init(world, 3, kFour);
  world->data = plan;
  for (int rank = 0; rank < world->size; ++rank)
    world_spawn(world, rank, launch_by_plugin, body);
  char bytes[4];
  for (int i = 0; i < world->size; ++i)
    assert_int_equal(read(plan->told[0], bytes, 1), 1);
}

static void finish(struct world* world, struct plan* plan) {
  close(plan->told[0]);
  close(plan->told[1]);
  world_free(world);
}

static void stop_one(int victim) {
  struct plan plan = {.victim = victim};
  struct world world;
  assert_int_equal(pipe(plan.go_on), 0);
  start(&world, &plan, silent_body);
  const double since = seconds_now();
  kill(world.pids[victim], SIGSTOP);
  for (int rank = 0; rank < world.size; ++rank)
    if (rank != victim && (victim == 0 || rank != 0))
      assert_int_equal(world_wait(&world, rank), 0);
  assert_true(seconds_now() - since < 20);
  kill(world.pids[victim], SIGCONT);
  assert_int_equal(write(plan.go_on[1], "g", 1), 1);
  if (victim != 0)
    assert_int_equal(world_wait(&world, 0), 0);
  assert_int_equal(world_wait(&world, victim), 0);
  close(plan.go_on[0]);
  close(plan.go_on[1]);
  finish(&world, &plan);
}

static void test_stopped_rank(void** state) {
  (void)state;
  stop_one(1);
}

static void test_stopped_rank_zero(void** state) {
  (void)state;
  stop_one(0);
}

/* scontrol suspend, gang scheduling: all stand still for longer than the silence and than the
 * deadline of the barrier that some are in, and go on. */
static int suspended_body(struct world* world, int rank) {
  struct plan* plan = world->data;
  char byte;
  step_t* s = opened_with_silence(3);
  CHECK(s, step_barrier(s, 60) == STEP_OK);
  CHECK(s, write(plan->told[1], "", 1) == 1);
  if (rank == 3)
    CHECK(s, read(plan->go_on[0], &byte, 1) == 1);
  CHECK(s, step_barrier(s, 4) == STEP_OK);
  int lost = -1;
  CHECK(s, step_wait_lost(s, &lost, 1.5) == STEP_ERR_TIMEOUT);
  CHECK(s, step_barrier(s, 60) == STEP_OK);
  step_close(s);
  return 0;
}

/* In a debugger: where silence counts for nothing. */
static int patient_body(struct world* world, int rank) {
  struct plan* plan = world->data;
  (void)rank;
  step_t* s = opened_with_silence(-1);
  CHECK(s, write(plan->told[1], "", 1) == 1);
  CHECK(s, step_barrier(s, -1) == STEP_OK && step_barrier(s, -1) == STEP_OK);
  step_close(s);
  return 0;
}

static void stop_for_six_seconds(rank_body body, int first, int last) {
  struct plan plan = {.victim = -1};
  struct world world;
  assert_int_equal(pipe(plan.go_on), 0);
  start(&world, &plan, body);
  for (int rank = first; rank <= last; ++rank)
    kill(world.pids[rank], SIGSTOP);
  sleep(6); /* twice the silence: what is tested is that time as such does not count */
  for (int rank = first; rank <= last; ++rank)
    kill(world.pids[rank], SIGCONT);
  assert_int_equal(write(plan.go_on[1], "g", 1), 1);
  for (int rank = 0; rank < world.size; ++rank)
    assert_int_equal(world_wait(&world, rank), 0);
  close(plan.go_on[0]);
  close(plan.go_on[1]);
  finish(&world, &plan);
}

static void test_suspended_step(void** state) {
  (void)state;
  stop_for_six_seconds(suspended_body, 0, 3);
}

static void test_patience(void** state) {
  (void)state;
  stop_for_six_seconds(patient_body, 0, 0);
}

/* A node dies with ranks 0 and 1: the others name rank 0 and the node. */
static int bereft_body(struct world* world, int rank) {
  struct plan* plan = world->data;
  step_t* s = opened();
  CHECK(s, step_barrier(s, 60) == STEP_OK);
  CHECK(s, write(plan->told[1], "", 1) == 1);
  int lost = -1;
  const step_err_t code = step_wait_lost(s, &lost, 60);
  CHECK(s, rank >= 2 && code == STEP_OK && lost == 0);
  CHECK(s, says(s, "rank 0 (node01, local 0) was lost"));
  CHECK(s, step_barrier(s, 60) == STEP_ERR_LOST && says(s, "rank 0 (node01"));
  step_close(s);
  return 0;
}

static void test_lost_node(void** state) {
  (void)state;
  struct plan plan = {.victim = 0};
  struct world world;
  start(&world, &plan, bereft_body);
  kill(world.pids[0], SIGSTOP); /* so that they go together: rank 0 cannot tell of rank 1 */
  kill(world.pids[1], SIGKILL);
  kill(world.pids[0], SIGKILL);
  for (int rank = 0; rank < 4; ++rank)
    assert_int_equal(world_wait(&world, rank), rank < 2 ? 1000 + SIGKILL : 0);
  finish(&world, &plan);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_stopped_rank),   cmocka_unit_test(test_stopped_rank_zero),
      cmocka_unit_test(test_suspended_step), cmocka_unit_test(test_patience),
      cmocka_unit_test(test_lost_node),
  };
  return cmocka_run_group_tests_name("silence", tests, NULL, NULL);
}
