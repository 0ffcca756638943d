/* SPDX-License-Identifier: BSD-3-Clause */
/* Ranks that are lost, and the order of leaving. */
#define _GNU_SOURCE
#include "world.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <unistd.h>

#include <cmocka.h>

static const int kTwoOneOne[] = {2, 1, 1};
static const int kTwo[] = {1, 1};

struct loss {
  int victim;
  int gather; /* the collective that others wait in: all-gather or barrier */
};

/* Some wait in a collective, some for a key, all without end; a loss must end that. */
static int lost_body(struct world* world, int rank) {
  const struct loss* loss = world->data;
  step_t* s = opened();
  CHECK(s, step_barrier(s, 60) == STEP_OK);
  if (rank == loss->victim) {
    CHECK(s, await_key(s, "ready"));
    raise(SIGKILL);
  }
  char who[64];
  snprintf(who, sizeof who, "rank %d (node%02d, local %d)", loss->victim,
           world_node_of(world, loss->victim) + 1, loss->victim == 1);
  int64_t ready = 0;
  char value;
  size_t length = 1;
  CHECK(s, step_add(s, "count", 1, &ready) == STEP_OK);
  if (ready == world->size - 1)
    CHECK(s, signal_key(s, "ready"));
  const step_err_t code = rank == 1      ? step_get(s, "never", &value, &length, -1)
                          : loss->gather ? step_all_gather(s, &value, 0, NULL, -1)
                                         : step_barrier(s, -1);
  CHECK(s, code == STEP_ERR_LOST && says(s, who));
  int lost = -1;
  CHECK(s, step_wait_lost(s, &lost, 60) == STEP_OK && lost == loss->victim && says(s, who));
  /* Nothing waits any more; what needs no waiting goes on while there is a store. */
  CHECK(s, step_barrier(s, -1) == STEP_ERR_LOST && says(s, who));
  CHECK(s, step_get(s, "never", &value, &length, -1) == STEP_ERR_LOST && says(s, who));
  if (loss->victim != 0)
    CHECK(s, signal_key(s, "still"));
  step_close(s);
  return 0;
}

static void lose(struct loss loss) {
  struct world world;
  world_init(&world, 3, kTwoOneOne);
  world.data = &loss;
  for (int rank = 0; rank < world.size; ++rank)
    world_spawn(&world, rank, launch_by_plugin, lost_body);
  assert_int_equal(world_wait(&world, loss.victim), 1000 + SIGKILL);
  const double since = seconds_now();
  for (int rank = 0; rank < world.size; ++rank)
    if (rank != loss.victim)
      assert_int_equal(world_wait(&world, rank), 0);
  assert_true(seconds_now() - since < 10);
  world_free(&world);
}

static void test_lost_rank(void** state) {
  (void)state;
  lose((struct loss){3, 0});
  lose((struct loss){2, 1});
}

static void test_lost_rank_zero(void** state) {
  (void)state;
  lose((struct loss){0, 0});
  lose((struct loss){0, 1});
}

/* A data loader's worker outlives its rank: the loss shows all the same. */
static int forked_loss_body(struct world* world, int rank) {
  const int* release = world->data;
  const int victim = release[2];
  step_t* s = opened();
  CHECK(s, step_barrier(s, 60) == STEP_OK);
  if (rank == victim) {
    CHECK(s, await_key(s, "here")); /* the barrier's answer may still be on its way there */
    const pid_t worker = fork();
    if (worker == 0) {
      char byte;
      close(release[1]);
      _exit(read(release[0], &byte, 1) == 0 ? 0 : 1); /* until the test is over */
    }
    CHECK(s, worker > 0);
    raise(SIGKILL);
  }
  int lost = -1;
  (void)signal_key(s, "here"); /* its answer may come or not */
  CHECK(s, step_wait_lost(s, &lost, 60) == STEP_OK && lost == victim);
  step_close(s);
  return 0;
}

static void test_loss_despite_children(void** state) {
  (void)state;
  for (int victim = 0; victim < 2; ++victim) {
    int data[3] = {-1, -1, victim};
    assert_int_equal(pipe(data), 0);
    struct world world;
    world_init(&world, 2, kTwo);
    world.data = data;
    for (int rank = 0; rank < 2; ++rank)
      world_spawn(&world, rank, launch_by_plugin, forked_loss_body);
    assert_int_equal(world_wait(&world, victim), 1000 + SIGKILL);
    assert_int_equal(world_wait(&world, 1 - victim), 0);
    close(data[0]);
    close(data[1]);
    world_free(&world);
  }
}

static int left_body(struct world* world, int rank) {
  (void)world;
  step_t* s = opened();
  CHECK(s, step_barrier(s, 60) == STEP_OK);
  if (rank != 2) {
    CHECK(s, step_barrier(s, -1) == STEP_ERR_LOST);
    CHECK(s, says(s, "rank 2 (node02, local 0) called step_close()"));
    int lost = -1; /* it is not lost, though */
    CHECK(s, step_wait_lost(s, &lost, 0) == STEP_ERR_TIMEOUT);
  }
  step_close(s);
  return 0;
}

static void test_left_rank(void** state) {
  (void)state;
  run_world(3, kTwoOneOne, launch_by_plugin, left_body, NULL);
}

/* Rank 0 is done first, yet serves the others until they are. */
static int linger_body(struct world* world, int rank) {
  (void)world;
  step_t* s = opened();
  CHECK(s, step_barrier(s, 60) == STEP_OK);
  if (rank == 1) {
    int lost = -1;
    CHECK(s, step_wait_lost(s, &lost, 0.2) == STEP_ERR_TIMEOUT);
    CHECK(s, signal_key(s, "later"));
    CHECK(s, step_barrier(s, 60) == STEP_ERR_LOST &&
                 says(s, "rank 0 (node01, local 0) called step_close"));
  }
  step_close(s);
  return 0;
}

static void test_linger(void** state) {
  (void)state;
  run_world(2, kTwo, launch_by_plugin, linger_body, NULL);
}

static int no_linger_body(struct world* world, int rank) {
  (void)world;
  step_t* s = NULL;
  const step_options_t options = {
      .size = sizeof options, .connect_seconds = 60, .linger_seconds = -1};
  CHECK(s, step_open(&s, &options) == STEP_OK);
  CHECK(s, step_barrier(s, 60) == STEP_OK);
  if (rank == 1) {
    int lost = -1;
    CHECK(s, step_wait_lost(s, &lost, 60) == STEP_ERR_NOT_FOUND);
    CHECK(s, step_barrier(s, 60) == STEP_ERR_LOST && says(s, "called step_close()"));
  }
  step_close(s);
  return 0;
}

static void test_no_linger(void** state) {
  (void)state;
  run_world(2, kTwo, launch_by_plugin, no_linger_body, NULL);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_lost_rank),
      cmocka_unit_test(test_lost_rank_zero),
      cmocka_unit_test(test_loss_despite_children),
      cmocka_unit_test(test_left_rank),
      cmocka_unit_test(test_linger),
      cmocka_unit_test(test_no_linger),
  };
  return cmocka_run_group_tests_name("loss and leave", tests, NULL, NULL);
}
