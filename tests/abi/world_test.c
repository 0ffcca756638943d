/* SPDX-License-Identifier: BSD-3-Clause */
/* Worlds of several processes: identity from every launcher, and collectives. */
#define _GNU_SOURCE
#include "world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <fcntl.h>

#include <cmocka.h>

static const int kTwoOneOne[] = {2, 1, 1};
static const int kTwo[] = {1, 1};

/* Every rank's number reaches every rank; then rank `size - 1` tells the others something. */
static int exchange(step_t* s, int rank, int size) {
  int all[WORLD_MAX], word = rank == size - 1 ? 4242 : 0;
  CHECK(s, step_all_gather(s, &rank, sizeof rank, all, 60) == STEP_OK);
  for (int i = 0; i < size; ++i)
    CHECK(s, all[i] == i);
  CHECK(s, step_broadcast(s, size - 1, &word, sizeof word, 60) == STEP_OK);
  CHECK(s, word == 4242);
  CHECK(s, step_barrier(s, 60) == STEP_OK);
  return 0;
}

static int plugin_body(struct world* world, int rank) {
  static const char* kNodes[] = {"node01", "node01", "node02", "node03"};
  step_t* s = opened();
  CHECK(s, step_rank(s) == rank && step_world_size(s) == 4);
  CHECK(s, step_local_rank(s) == (rank == 1) && step_local_world_size(s) == (rank < 2 ? 2 : 1));
  CHECK(s, step_node_rank(s) == world_node_of(world, rank) && step_node_count(s) == 3);
  CHECK(s, strcmp(step_node_name(s), kNodes[rank]) == 0);
  for (int i = 0; i < 4; ++i)
    CHECK(s, strcmp(step_node_of(s, i), kNodes[i]) == 0);
  CHECK(s, strcmp(step_node_of(s, 4), "?") == 0);
  CHECK(s, step_source(s) == STEP_SOURCE_PLUGIN);
  CHECK(s, strcmp(step_source_text(s), "srun --dist-train (step 4711.0)") == 0);
  CHECK(s, strcmp(step_strategy(s), "fsdp") == 0 && strcmp(step_id(s), "4711.0") == 0);
  CHECK(s, step_restart_count(s) == 2);
  CHECK(s, strcmp(step_master_address(s), "127.0.0.1") == 0);
  CHECK(s, step_master_port(s) == world->program_port);
  char store[64];
  snprintf(store, sizeof store, "127.0.0.1:%d", world->store_port);
  CHECK(s, strcmp(step_store_address(s), store) == 0);
  if (rank == 0) { /* what was inherited stays open here, and here only */
    CHECK(s, fcntl(world->store_fd, F_GETFD) == FD_CLOEXEC);
    CHECK(s, fcntl(world->port_fd, F_GETFD) == FD_CLOEXEC);
  }
  if (exchange(s, rank, 4) != 0)
    return 1;
  step_close(s);
  return 0;
}

static void test_plugin(void** state) {
  (void)state;
  run_world(3, kTwoOneOne, launch_by_plugin, plugin_body, NULL);
}

static int srun_body(struct world* world, int rank) {
  step_t* s = opened();
  CHECK(s, step_rank(s) == rank && step_world_size(s) == world->size);
  CHECK(s, step_local_rank(s) == rank && step_local_world_size(s) == world->size);
  CHECK(s, step_source(s) == STEP_SOURCE_SLURM && step_node_count(s) == 1);
  CHECK(s, strcmp(step_node_of(s, world->size - 1), "localhost") == 0);
  /* Rank 0 chose a port for the program and told it. */
  int ports[WORLD_MAX], mine = step_master_port(s);
  CHECK(s, mine > 0 && step_all_gather(s, &mine, sizeof mine, ports, 60) == STEP_OK);
  CHECK(s, ports[0] == mine);
  if (exchange(s, rank, world->size) != 0)
    return 1;
  step_close(s);
  return 0;
}

static void test_srun_alone(void** state) {
  (void)state;
  static const int kThree[] = {3};
  run_world(1, kThree, launch_by_srun, srun_body, NULL);
}

static int torchrun_body(struct world* world, int rank) {
  step_t* s = opened();
  CHECK(s, step_rank(s) == rank && step_world_size(s) == world->size);
  CHECK(s, step_source(s) == STEP_SOURCE_TORCHRUN && says(s, ""));
  CHECK(s, strcmp(step_source_text(s), "torchrun (run 'none')") == 0);
  CHECK(s, step_restart_count(s) == 1 && step_node_count(s) == 2);
  /* MASTER_PORT is the agent's; the program gets one of its own. */
  CHECK(s, step_master_port(s) > 0 && step_master_port(s) != world->program_port);
  if (exchange(s, rank, world->size) != 0)
    return 1;
  step_close(s);
  return 0;
}

static void test_torchrun(void** state) {
  (void)state;
  static const int kTwoEach[] = {2, 2};
  run_world(2, kTwoEach, launch_by_torchrun, torchrun_body, NULL);
}

/* Rank 2 comes too late: the others are told who and where, and so is it; then all go on. Rank 0, whose
   time is short, waits until the others are on their way. */
static int missing_body(struct world* world, int rank) {
  (void)world;
  step_t* s = opened();
  CHECK(s, step_barrier(s, 60) == STEP_OK);
  if (rank == 2)
    CHECK(s, await_key(s, "failed"));
  CHECK(s, rank != 1 || signal_key(s, "1 comes"));
  CHECK(s, rank != 3 || signal_key(s, "3 comes"));
  CHECK(s, rank != 0 || (await_key(s, "1 comes") && await_key(s, "3 comes")));
  CHECK(s, step_barrier(s, rank == 0 ? 1 : 60) == STEP_ERR_TIMEOUT);
  CHECK(s, says(s, "1 of 4 ranks did not come within 1 s: rank 2 (node02, local 0)"));
  CHECK(s, rank == 2 || signal_key(s, "failed"));
  CHECK(s, step_barrier(s, 60) == STEP_OK);
  step_close(s);
  return 0;
}

static void test_barrier_names_missing(void** state) {
  (void)state;
  run_world(3, kTwoOneOne, launch_by_plugin, missing_body, NULL);
}

static int never_joined_body(struct world* world, int rank) {
  (void)world;
  (void)rank;
  step_t* s = NULL;
  const step_options_t options = {
      .size = sizeof options, .connect_seconds = 60, .linger_seconds = -1};
  CHECK(s, step_open(&s, &options) == STEP_OK);
  CHECK(s, step_barrier(s, 0.2) == STEP_ERR_TIMEOUT);
  CHECK(s,
        says(s, "rank 1 (node01, local 1, never joined), rank 2 (node02, local 0, never joined)"));
  char value;
  size_t length = 1;
  CHECK(s, step_get(s, "k", &value, &length, 0.1) == STEP_ERR_TIMEOUT);
  CHECK(s, says(s, "not here: rank 1 (node01, local 1, never joined)"));
  step_close(s);
  return 0;
}

static void test_never_joined(void** state) {
  (void)state;
  struct world world;
  world_init(&world, 3, kTwoOneOne);
  world_spawn(&world, 0, launch_by_plugin, never_joined_body);
  assert_int_equal(world_wait(&world, 0), 0);
  world_free(&world);
}

static int mismatch_body(struct world* world, int rank) {
  (void)world;
  step_t* s = opened();
  int word = 0;
  CHECK(s, (rank == 1 ? step_broadcast(s, 0, &word, sizeof word, 60) : step_barrier(s, 60)) ==
               STEP_ERR_ARGUMENT);
  CHECK(s, says(s, "broadcast from rank 0, 4 bytes") && says(s, "barrier"));
  CHECK(s, step_all_gather(s, &word, rank == 1 ? 4 : 2, &(int[2]){0}, 60) == STEP_ERR_ARGUMENT);
  CHECK(s, says(s, "4 bytes a rank") && says(s, "2 bytes a rank") && says(s, "node02"));
  if (exchange(s, rank, 2) != 0)
    return 1;
  step_close(s);
  return 0;
}

static void test_mismatched_collectives(void** state) {
  (void)state;
  run_world(2, kTwo, launch_by_plugin, mismatch_body, NULL);
}

static int reopen_body(struct world* world, int rank) {
  for (int round = 0; round < 3; ++round) {
    step_t* s = opened();
    int64_t keys = -1;
    CHECK(s, step_barrier(s, 60) == STEP_OK);
    CHECK(s, step_key_count(s, &keys) == STEP_OK && keys == 0); /* a new store each time */
    CHECK(s, step_barrier(s, 60) == STEP_OK);
    CHECK(s, signal_key(s, "used"));
    if (exchange(s, rank, world->size) != 0)
      return 1;
    step_close(s);
  }
  return 0;
}

static void test_reopen(void** state) {
  (void)state;
  run_world(3, kTwoOneOne, launch_by_plugin, reopen_body, NULL);
  static const int kThree[] = {3};
  run_world(1, kThree, launch_by_srun, reopen_body, NULL);
}

static int exchange_body(struct world* world, int rank) {
  step_t* s = opened();
  for (int i = 0; i < 20; ++i)
    if (exchange(s, rank, world->size) != 0)
      return 1;
  step_close(s);
  return 0;
}

static void test_two_steps_at_once(void** state) {
  (void)state;
  static const int kFour[] = {4};
  const launcher launchers[] = {launch_by_plugin, launch_by_srun, launch_by_torchrun};
  for (size_t i = 0; i < 3; ++i) {
    struct world worlds[2];
    for (int w = 0; w < 2; ++w) {
      world_init(&worlds[w], 1, kFour);
      worlds[w].step = w;
    }
    for (int rank = 0; rank < 4; ++rank)
      for (int w = 0; w < 2; ++w)
        world_spawn(&worlds[w], rank, launchers[i], exchange_body);
    for (int rank = 0; rank < 4; ++rank)
      for (int w = 0; w < 2; ++w)
        assert_int_equal(world_wait(&worlds[w], rank), 0);
    for (int w = 0; w < 2; ++w)
      world_free(&worlds[w]);
  }
}

static void test_world_of_64(void** state) {
  (void)state;
  static const int kSixtyFour[] = {32, 16, 8, 8};
  run_world(4, kSixtyFour, launch_by_plugin, exchange_body, NULL);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_plugin),       cmocka_unit_test(test_srun_alone),
      cmocka_unit_test(test_torchrun),     cmocka_unit_test(test_barrier_names_missing),
      cmocka_unit_test(test_never_joined), cmocka_unit_test(test_mismatched_collectives),
      cmocka_unit_test(test_reopen),       cmocka_unit_test(test_two_steps_at_once),
      cmocka_unit_test(test_world_of_64),
  };
  return cmocka_run_group_tests_name("worlds", tests, NULL, NULL);
}
