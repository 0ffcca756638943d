/* SPDX-License-Identifier: BSD-3-Clause */
/* What step_open() says when the step cannot be joined. */
#define _GNU_SOURCE
#include "world.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

static const int kTwo[] = {1, 1};
static const int kThree[] = {1, 1, 1};

/* What a rank should meet. */
struct expectation {
  step_err_t code;
  const char* text;
  double seconds; /* for step_open() */
  int joined[2];  /* pipe: a byte when this rank has joined */
};

static int expect_body(struct world* world, int rank) {
  const struct expectation* expected = world->data;
  (void)rank;
  step_t* s = NULL;
  const step_options_t options = {.size = sizeof options, .connect_seconds = expected->seconds};
  const step_err_t code = step_open(&s, &options);
  if (code != expected->code || strstr(step_error(NULL), expected->text) == NULL) {
    fprintf(stderr, "step_open: %d '%s', expected %d '%s'\n", code, step_error(NULL),
            expected->code, expected->text);
    return 1;
  }
  return code == STEP_OK || step_hint(NULL)[0] != '\0' ? 0 : 1;
}

static int member_body(struct world* world, int rank) {
  const struct expectation* expected = world->data;
  (void)rank;
  step_t* s = NULL;
  CHECK(s, step_open(&s, NULL) == STEP_OK);
  CHECK(s, write(expected->joined[1], "", 1) == 1);
  CHECK(s, step_barrier(s, 60) == STEP_OK);
  step_close(s);
  return 0;
}

static void await_joined(struct expectation* expected) {
  char byte;
  assert_int_equal(read(expected->joined[0], &byte, 1), 1);
}

static void by_plugin_with_other_token(struct world* world, int rank) {
  memset(world->token, 'f', 32);
  launch_by_plugin(world, rank);
}

static void by_plugin_in_larger_world(struct world* world, int rank) {
  world->nodes = 3;
  world->tasks = kThree;
  world->size = 3;
  launch_by_plugin(world, rank);
}

/* An outsider knocks while rank 0 waits for rank 1; then the real rank 1 comes, and all is well. */
static void outsider(int rank, launcher launch, step_err_t code, const char* text) {
  struct world world, other;
  struct expectation expected = {code, text, 60, {-1, -1}};
  assert_int_equal(pipe(expected.joined), 0);
  world_init(&world, 2, kTwo);
  world.data = &expected;
  world_spawn(&world, 0, launch_by_plugin, member_body);
  await_joined(&expected);
  other = world;
  world_spawn(&other, rank, launch, expect_body);
  assert_int_equal(world_wait(&other, rank), 0);
  world_spawn(&world, 1, launch_by_plugin, member_body);
  for (int i = 0; i < 2; ++i)
    assert_int_equal(world_wait(&world, i), 0);
  close(expected.joined[0]);
  close(expected.joined[1]);
  world_free(&world);
}

static void test_wrong_token(void** state) {
  (void)state;
  outsider(1, by_plugin_with_other_token, STEP_ERR_AUTH, "does not know this step's token");
}

static void test_wrong_world(void** state) {
  (void)state;
  outsider(2, by_plugin_in_larger_world, STEP_ERR_IDENTITY, "another size than 3 ranks");
}

static void test_rank_taken(void** state) {
  (void)state;
  struct world world, twin;
  struct expectation expected = {
      STEP_ERR_IDENTITY, "a process with this rank has joined", 60, {-1, -1}};
  assert_int_equal(pipe(expected.joined), 0);
  world_init(&world, 3, kThree);
  world.data = &expected;
  for (int rank = 0; rank < 2; ++rank) {
    world_spawn(&world, rank, launch_by_plugin, member_body);
    await_joined(&expected);
  }
  twin = world;
  world_spawn(&twin, 1, launch_by_plugin, expect_body);
  assert_int_equal(world_wait(&twin, 1), 0);
  world_spawn(&world, 2, launch_by_plugin, member_body);
  for (int rank = 0; rank < 3; ++rank)
    assert_int_equal(world_wait(&world, rank), 0);
  close(expected.joined[0]);
  close(expected.joined[1]);
  world_free(&world);
}

static void expect_alone(struct world* world, int rank, launcher launch, step_err_t code,
                         const char* text) {
  struct expectation expected = {code, text, 0.3, {-1, -1}};
  world->data = &expected;
  world_spawn(world, rank, launch, expect_body);
  assert_int_equal(world_wait(world, rank), 0);
}

static void test_nobody_listens(void** state) {
  (void)state;
  struct world world;
  char text[64];
  world_init(&world, 2, kTwo);
  assert_int_equal(close(world.store_fd), 0);
  snprintf(text, sizeof text, "127.0.0.1:%d: Connection refused; tried for 0.3 s",
           world.store_port);
  expect_alone(&world, 1, launch_by_plugin, STEP_ERR_CONNECT, text);
  expect_alone(&world, 1, launch_by_srun, STEP_ERR_CONNECT, "tried for 0.3 s");
  world.store_fd = -1;
  world_free(&world);
}

/* Rank 0's socket listens already, but rank 0 does not call step_open(). */
static void test_nobody_serves(void** state) {
  (void)state;
  struct world world;
  world_init(&world, 2, kTwo);
  expect_alone(&world, 1, launch_by_plugin, STEP_ERR_CONNECT, "rank 0 (node01, local 0)");
  world_free(&world);
}

static void* answer_as_web_server(void* data) {
  const int fd = accept(*(int*)data, NULL, NULL);
  char request[256];
  const char answer[] = "HTTP/1.0 400 Bad Request\r\nServer: something else\r\n"
                        "Content-Length: 0\r\nConnection: close\r\n\r\n";
  ssize_t got = read(fd, request, sizeof request);
  if (got > 0)
    got = write(fd, answer, sizeof answer - 1);
  while (got > 0) /* until the rank has seen enough */
    got = read(fd, request, sizeof request);
  close(fd);
  return NULL;
}

static void test_foreign_server(void** state) {
  (void)state;
  struct world world;
  pthread_t server;
  world_init(&world, 2, kTwo);
  assert_int_equal(pthread_create(&server, NULL, answer_as_web_server, &world.store_fd), 0);
  expect_alone(&world, 1, launch_by_plugin, STEP_ERR_PROTOCOL, "what answers there is not libstep");
  assert_int_equal(pthread_join(server, NULL), 0);
  world_free(&world);
}

static void by_plugin_with_port_fd_for_store(struct world* world, int rank) {
  launch_by_plugin(world, rank);
  set_number("DIST_TRAIN_STORE_FD", world->port_fd);
}

static void by_plugin_with_pipe_for_store(struct world* world, int rank) {
  int ends[2];
  launch_by_plugin(world, rank);
  if (pipe(ends) == 0)
    set_number("DIST_TRAIN_STORE_FD", ends[0]);
}

static void by_plugin_with_no_fd(struct world* world, int rank) {
  launch_by_plugin(world, rank);
  unsetenv("DIST_TRAIN_STORE_FD");
}

/* The port is taken by the one who holds the real socket: this process. */
static void test_bad_store_fd(void** state) {
  (void)state;
  struct world world;
  world_init(&world, 2, kTwo);
  expect_alone(&world, 0, by_plugin_with_port_fd_for_store, STEP_ERR_SYSTEM,
               "is not a listening socket; and cannot bind port");
  expect_alone(&world, 0, by_plugin_with_pipe_for_store, STEP_ERR_SYSTEM, "is no open socket");
  expect_alone(&world, 0, by_plugin_with_no_fd, STEP_ERR_SYSTEM, "DIST_TRAIN_STORE_FD is not set");
  world_free(&world);
}

/* A wrapper that closed the descriptor has freed the port, too. */
static int reopened_body(struct world* world, int rank) {
  (void)world;
  (void)rank;
  step_t* s = NULL;
  CHECK(s, step_open(&s, NULL) == STEP_OK);
  CHECK(s, step_barrier(s, 60) == STEP_OK);
  step_close(s);
  return 0;
}

static void test_closed_store_fd(void** state) {
  (void)state;
  struct world world;
  world_init(&world, 2, kTwo);
  close(world.store_fd);
  world_run(&world, launch_by_plugin, reopened_body);
  world.store_fd = -1;
  world_free(&world);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_wrong_token),   cmocka_unit_test(test_wrong_world),
      cmocka_unit_test(test_rank_taken),    cmocka_unit_test(test_nobody_listens),
      cmocka_unit_test(test_nobody_serves), cmocka_unit_test(test_foreign_server),
      cmocka_unit_test(test_bad_store_fd),  cmocka_unit_test(test_closed_store_fd),
  };
  return cmocka_run_group_tests_name("joining", tests, NULL, NULL);
}
