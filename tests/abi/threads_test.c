/* SPDX-License-Identifier: BSD-3-Clause */
/* One handle in several threads and, wrongly, in a forked child. */
#define _GNU_SOURCE
#include <libstep/step.h>

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "single.h"

static void* wait_for_loss(void* step) {
  int rank = -1;
  return (void*)(intptr_t)step_wait_lost(step, &rank, -1);
}

static void test_watch(void** state) {
  step_t* s = *state;
  int rank = -1;
  ASSERT_FAILS(s, step_wait_lost(s, &rank, 0), STEP_ERR_TIMEOUT, "no rank was lost");
  assert_int_equal(rank, -1);
  pthread_t thread;
  void* result = NULL;
  assert_int_equal(pthread_create(&thread, NULL, wait_for_loss, s), 0);
  step_close_watch(s);
  assert_int_equal(pthread_join(thread, &result), 0);
  assert_int_equal((intptr_t)result, STEP_ERR_NOT_FOUND);
}

struct worker {
  step_t* step;
  int number;
  int failures;
};

/* Each thread waits for its predecessor's key, so most of them wait at once. */
static void* relay(void* argument) {
  struct worker* me = argument;
  char from[32], to[32], value[32];
  for (int round = 0; round < 50; ++round) {
    snprintf(from, sizeof from, "%d/%d", round, me->number);
    snprintf(to, sizeof to, "%d/%d", round, me->number + 1);
    size_t length = sizeof value;
    if (me->number > 0)
      me->failures += step_get(me->step, from, value, &length, 60) != STEP_OK;
    me->failures += step_set(me->step, to, to, strlen(to)) != STEP_OK;
    me->failures += step_add(me->step, "sum", 1, NULL) != STEP_OK;
    /* Errors are each thread's own. */
    snprintf(to, sizeof to, "'no/%d'", me->number);
    snprintf(from, sizeof from, "no/%d", me->number);
    length = sizeof value;
    me->failures += step_get(me->step, from, value, &length, 0) != STEP_ERR_NOT_FOUND;
    me->failures += strstr(step_error(me->step), to) == NULL;
  }
  return NULL;
}

static void test_threads(void** state) {
  enum { kThreads = 8 };
  struct worker workers[kThreads];
  pthread_t threads[kThreads];
  for (int i = kThreads - 1; i >= 0; --i) {
    workers[i] = (struct worker){*state, i, 0};
    assert_int_equal(pthread_create(&threads[i], NULL, relay, &workers[i]), 0);
  }
  for (int i = 0; i < kThreads; ++i) {
    assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_int_equal(workers[i].failures, 0);
  }
  int64_t sum = 0;
  assert_int_equal(step_add(*state, "sum", 0, &sum), STEP_OK);
  assert_int_equal(sum, 50 * kThreads);
}

static void test_forked_child(void** state) {
  step_t* s = *state;
  const pid_t pid = fork();
  assert_true(pid >= 0);
  if (pid == 0) {
    int ok = step_set(s, "child", "", 0) == STEP_ERR_ARGUMENT &&
             strstr(step_error(s), "forked") != NULL && step_rank(s) == 0;
    step_close(s); /* must neither hang nor say goodbye for the parent */
    _exit(ok ? 0 : 1);
  }
  int status = -1;
  assert_int_equal(waitpid(pid, &status, 0), pid);
  assert_int_equal(status, 0);
  assert_int_equal(step_set(s, "parent", "", 0), STEP_OK);
}

#define WITH_STEP(test) cmocka_unit_test_setup_teardown(test, open_step, close_step)

int main(void) {
  const struct CMUnitTest tests[] = {
      WITH_STEP(test_watch),
      WITH_STEP(test_threads),
      WITH_STEP(test_forked_child),
  };
  return cmocka_run_group_tests_name("threads", tests, NULL, NULL);
}
