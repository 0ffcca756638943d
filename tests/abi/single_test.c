/* SPDX-License-Identifier: BSD-3-Clause */
/* The C ABI in a world of one: every function's results and errors. */
#define _GNU_SOURCE
#include <libstep/step.h> /* first: the header must stand alone */

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "single.h"

static void test_versions_and_names(void** state) {
  (void)state;
  assert_int_equal(step_api_version(), STEP_API_VERSION);
  for (int a = STEP_OK; a <= STEP_ERR_INTERNAL; ++a)
    for (int b = STEP_OK; b < a; ++b)
      assert_string_not_equal(step_strerror(a), step_strerror(b));
  assert_string_equal(step_strerror(-1), "unknown error");
  assert_string_equal(step_strerror(1000), "unknown error");
}

static void test_identity(void** state) {
  step_t* s = *state;
  char host[256] = "";
  gethostname(host, sizeof host - 1);
  host[strcspn(host, ".")] = '\0';
  assert_int_equal(step_rank(s), 0);
  assert_int_equal(step_world_size(s), 1);
  assert_int_equal(step_local_rank(s), 0);
  assert_int_equal(step_local_world_size(s), 1);
  assert_int_equal(step_node_rank(s), 0);
  assert_int_equal(step_node_count(s), 1);
  assert_string_equal(step_node_name(s), host);
  assert_string_equal(step_node_of(s, 0), host);
  assert_string_equal(step_node_of(s, 1), "?");
  assert_string_equal(step_node_of(s, -1), "?");
  assert_int_equal(step_source(s), STEP_SOURCE_SINGLE);
  assert_string_equal(step_source_text(s), "a single process");
  assert_string_equal(step_strategy(s), "");
  assert_string_equal(step_id(s), "");
  assert_int_equal(step_restart_count(s), 0);
  assert_string_equal(step_master_address(s), "127.0.0.1");
  assert_string_equal(step_store_address(s), "");
}

/* The port is held, yet free for a server of this program. */
static void test_master_port(void** state) {
  step_t* s = *state;
  struct sockaddr_in address = {.sin_family = AF_INET,
                                .sin_port = htons((uint16_t)step_master_port(s))};
  assert_true(step_master_port(s) > 0);
  int fd = socket(AF_INET, SOCK_STREAM, 0);
  assert_int_equal(bind(fd, (struct sockaddr*)&address, sizeof address), -1);
  int one = 1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  assert_int_equal(bind(fd, (struct sockaddr*)&address, sizeof address), 0);
  assert_int_equal(listen(fd, 1), 0);
  close(fd);
}

static void test_null_handle(void** state) {
  (void)state;
  size_t length = 0;
  int number = 0;
  int64_t count = 0;
  const char* keys[] = {"a"};
  ASSERT_FAILS(NULL, step_open(NULL, NULL), STEP_ERR_ARGUMENT, "NULL");
  ASSERT_FAILS(NULL, step_set(NULL, "a", "", 0), STEP_ERR_ARGUMENT, "the handle is NULL");
  assert_string_equal(step_hint(NULL), "call step_open() first");
  assert_int_equal(step_get(NULL, "a", NULL, &length, 0), STEP_ERR_ARGUMENT);
  assert_int_equal(step_wait(NULL, keys, 1, 0), STEP_ERR_ARGUMENT);
  assert_int_equal(step_add(NULL, "a", 1, NULL), STEP_ERR_ARGUMENT);
  assert_int_equal(step_compare_and_set(NULL, "a", NULL, 0, "", 0, NULL), STEP_ERR_ARGUMENT);
  assert_int_equal(step_delete(NULL, "a", NULL), STEP_ERR_ARGUMENT);
  assert_int_equal(step_key_count(NULL, &count), STEP_ERR_ARGUMENT);
  assert_int_equal(step_barrier(NULL, 0), STEP_ERR_ARGUMENT);
  assert_int_equal(step_broadcast(NULL, 0, NULL, 0, 0), STEP_ERR_ARGUMENT);
  assert_int_equal(step_all_gather(NULL, NULL, 0, NULL, 0), STEP_ERR_ARGUMENT);
  assert_int_equal(step_wait_lost(NULL, &number, 0), STEP_ERR_ARGUMENT);
  step_close_watch(NULL);
  step_close(NULL);
  assert_int_equal(step_rank(NULL), -1);
  assert_int_equal(step_world_size(NULL), -1);
  assert_string_equal(step_node_name(NULL), "");
  assert_string_equal(step_node_of(NULL, 0), "?");
}

static void test_options(void** state) {
  (void)state;
  clearenv();
  step_t* s = NULL;
  step_options_t options = {0};
  ASSERT_FAILS(NULL, step_open(&s, &options), STEP_ERR_ARGUMENT, "size is 0");
  options.size = sizeof options;
  options.connect_seconds = NAN;
  ASSERT_FAILS(NULL, step_open(&s, &options), STEP_ERR_ARGUMENT, "not a number");
  assert_null(s);
  options.connect_seconds = 1;
  assert_int_equal(step_open(&s, &options), STEP_OK);
  step_close(s);
}

static void test_set_and_get(void** state) {
  step_t* s = *state;
  char value[16] = "untouched";
  size_t length = sizeof value;
  assert_int_equal(step_set(s, "key", "a\0b", 3), STEP_OK);
  assert_int_equal(step_get(s, "key", value, &length, 0), STEP_OK);
  assert_int_equal(length, 3);
  assert_memory_equal(value, "a\0b", 3);
  assert_int_equal(step_set(s, "key", NULL, 0), STEP_OK); /* empty, and it replaces */
  length = sizeof value;
  assert_int_equal(step_get(s, "key", value, &length, -1), STEP_OK);
  assert_int_equal(length, 0);
  length = 0;
  assert_int_equal(step_get(s, "key", NULL, &length, 0), STEP_OK);

  assert_int_equal(step_set(s, "key", "12345", 5), STEP_OK);
  strcpy(value, "untouched");
  length = 4;
  ASSERT_FAILS(s, step_get(s, "key", value, &length, 0), STEP_ERR_TOO_SMALL, "5 bytes");
  assert_int_equal(length, 5);
  assert_string_equal(value, "untouched");
}

static void test_missing_keys(void** state) {
  step_t* s = *state;
  char value[4];
  size_t length = sizeof value;
  ASSERT_FAILS(s, step_get(s, "none", value, &length, 0), STEP_ERR_NOT_FOUND, "'none'");
  ASSERT_FAILS(s, step_get(s, "none", value, &length, 0.02), STEP_ERR_TIMEOUT, "0.02 s");
  assert_int_equal(length, sizeof value);
  assert_int_equal(step_set(s, "one", "", 0), STEP_OK);
  const char* keys[] = {"one", "two"};
  assert_int_equal(step_wait(s, keys, 1, 0), STEP_OK);
  assert_int_equal(step_wait(s, NULL, 0, 0), STEP_OK);
  ASSERT_FAILS(s, step_wait(s, keys, 2, 0), STEP_ERR_NOT_FOUND, "'two'");
  ASSERT_FAILS(s, step_wait(s, keys, 2, 0.02), STEP_ERR_TIMEOUT, "'two'");
  /* A successful call does not change the text; another handle has none. */
  assert_int_equal(step_wait(s, keys, 1, 0), STEP_OK);
  assert_non_null(strstr(step_error(s), "'two'"));
  assert_string_equal(step_error(NULL), "");
}

static void test_bad_arguments(void** state) {
  step_t* s = *state;
  char key[STEP_KEY_MAX + 2];
  memset(key, 'k', sizeof key);
  key[STEP_KEY_MAX + 1] = '\0';
  size_t length = 1;
  char byte = 0;
  const char* bad[] = {"a", NULL};
  ASSERT_FAILS(s, step_set(s, key, "", 0), STEP_ERR_ARGUMENT, "longer than 1024");
  key[STEP_KEY_MAX] = '\0';
  assert_int_equal(step_set(s, key, "x", 1), STEP_OK);
  assert_int_equal(step_get(s, key, &byte, &length, 0), STEP_OK);
  ASSERT_FAILS(s, step_set(s, "", "", 0), STEP_ERR_ARGUMENT, "empty");
  ASSERT_FAILS(s, step_set(s, NULL, "", 0), STEP_ERR_ARGUMENT, "key is NULL");
  ASSERT_FAILS(s, step_set(s, "a", NULL, 1), STEP_ERR_ARGUMENT, "buffer is NULL");
  ASSERT_FAILS(s, step_set(s, "a", &byte, (size_t)STEP_VALUE_MAX + 1), STEP_ERR_ARGUMENT,
               "67108865 bytes");
  ASSERT_FAILS(s, step_get(s, "a", &byte, NULL, 0), STEP_ERR_ARGUMENT, "length is NULL");
  ASSERT_FAILS(s, step_get(s, "a", NULL, &length, 0), STEP_ERR_ARGUMENT, "buffer is NULL");
  ASSERT_FAILS(s, step_get(s, "a", &byte, &length, NAN), STEP_ERR_ARGUMENT, "not a number");
  ASSERT_FAILS(s, step_wait(s, NULL, 1, 0), STEP_ERR_ARGUMENT, "list of keys");
  ASSERT_FAILS(s, step_wait(s, bad, 2, 0), STEP_ERR_ARGUMENT, "key is NULL");
  ASSERT_FAILS(s, step_key_count(s, NULL), STEP_ERR_ARGUMENT, "count is NULL");
  ASSERT_FAILS(s, step_compare_and_set(s, "a", NULL, 0, NULL, 1, NULL), STEP_ERR_ARGUMENT,
               "buffer is NULL");
  ASSERT_FAILS(s, step_broadcast(s, 1, NULL, 0, 0), STEP_ERR_ARGUMENT, "root 1");
  ASSERT_FAILS(s, step_broadcast(s, -1, NULL, 0, 0), STEP_ERR_ARGUMENT, "root -1");
  ASSERT_FAILS(s, step_broadcast(s, 0, NULL, 1, 0), STEP_ERR_ARGUMENT, "buffer is NULL");
  ASSERT_FAILS(s, step_all_gather(s, NULL, 1, &byte, 0), STEP_ERR_ARGUMENT, "buffer is NULL");
  ASSERT_FAILS(s, step_all_gather(s, &byte, (size_t)STEP_VALUE_MAX + 1, &byte, 0),
               STEP_ERR_ARGUMENT, "67108864");
  ASSERT_FAILS(s, step_wait_lost(s, NULL, 0), STEP_ERR_ARGUMENT, "rank is NULL");
}

static void test_add(void** state) {
  step_t* s = *state;
  int64_t sum = 0;
  char text[32];
  size_t length = sizeof text;
  assert_int_equal(step_add(s, "n", 5, &sum), STEP_OK);
  assert_int_equal(sum, 5);
  assert_int_equal(step_add(s, "n", -12, NULL), STEP_OK);
  assert_int_equal(step_get(s, "n", text, &length, 0), STEP_OK);
  assert_memory_equal(text, "-7", length);
  assert_int_equal(length, 2);
  assert_int_equal(step_set(s, "n", "9223372036854775807", 19), STEP_OK);
  ASSERT_FAILS(s, step_add(s, "n", 1, &sum), STEP_ERR_ARGUMENT, "64-bit");
  assert_int_equal(step_set(s, "n", "12 apples", 9), STEP_OK);
  ASSERT_FAILS(s, step_add(s, "n", 1, &sum), STEP_ERR_ARGUMENT, "'12 apples'");
  assert_int_equal(sum, 5); /* written on success only */
}

static void test_compare_delete_count(void** state) {
  step_t* s = *state;
  int yes = -1;
  int64_t count = -1;
  assert_int_equal(step_key_count(s, &count), STEP_OK);
  assert_int_equal(count, 0);
  assert_int_equal(step_compare_and_set(s, "k", "x", 1, "y", 1, &yes), STEP_OK);
  assert_int_equal(yes, 0); /* missing, but a value was expected */
  assert_int_equal(step_compare_and_set(s, "k", NULL, 0, "a", 1, &yes), STEP_OK);
  assert_int_equal(yes, 1);
  assert_int_equal(step_compare_and_set(s, "k", NULL, 0, "b", 1, &yes), STEP_OK);
  assert_int_equal(yes, 0);
  assert_int_equal(step_compare_and_set(s, "k", "", 0, "b", 1, &yes), STEP_OK);
  assert_int_equal(yes, 0);
  assert_int_equal(step_compare_and_set(s, "k", "a", 1, "b", 1, NULL), STEP_OK);
  assert_int_equal(step_compare_and_set(s, "k", "b", 1, "", 0, &yes), STEP_OK);
  assert_int_equal(yes, 1);
  assert_int_equal(step_key_count(s, &count), STEP_OK);
  assert_int_equal(count, 1);
  assert_int_equal(step_delete(s, "k", &yes), STEP_OK);
  assert_int_equal(yes, 1);
  assert_int_equal(step_delete(s, "k", &yes), STEP_OK);
  assert_int_equal(yes, 0);
  assert_int_equal(step_delete(s, "k", NULL), STEP_OK);
}

static void test_largest_value(void** state) {
  step_t* s = *state;
  size_t length = STEP_VALUE_MAX;
  char* value = malloc(length);
  assert_non_null(value);
  for (size_t i = 0; i < length; ++i)
    value[i] = (char)(i * 2654435761u >> 24);
  assert_int_equal(step_set(s, "large", value, length), STEP_OK);
  char* copy = calloc(1, length);
  assert_non_null(copy);
  assert_int_equal(step_get(s, "large", copy, &length, 0), STEP_OK);
  assert_int_equal(length, STEP_VALUE_MAX);
  assert_memory_equal(copy, value, length);
  memset(copy, 0, length);
  assert_int_equal(step_all_gather(s, value, length, copy, 60), STEP_OK);
  assert_memory_equal(copy, value, length);
  free(copy);
  free(value);
}

static void test_collectives_of_one(void** state) {
  step_t* s = *state;
  int in = 42, out = 0;
  assert_int_equal(step_barrier(s, 0), STEP_OK);
  assert_int_equal(step_broadcast(s, 0, &in, sizeof in, 1), STEP_OK);
  assert_int_equal(in, 42);
  assert_int_equal(step_all_gather(s, &in, sizeof in, &out, 1), STEP_OK);
  assert_int_equal(out, 42);
  assert_int_equal(step_all_gather(s, NULL, 0, NULL, 1), STEP_OK);
}

static void test_open_twice(void** state) {
  step_t* second = NULL;
  assert_int_equal(step_open(&second, NULL), STEP_OK);
  assert_int_equal(step_set(second, "k", "2", 1), STEP_OK);
  int64_t count = -1;
  assert_int_equal(step_key_count(*state, &count), STEP_OK);
  assert_int_equal(count, 0); /* each has its own store */
  step_close(second);
  assert_int_equal(step_barrier(*state, 0), STEP_OK);
}

static void test_identity_errors(void** state) {
  (void)state;
  static const struct {
    const char *name, *value, *text;
  } kCases[] = {
      {"RANK", "3", "WORLD_SIZE"},        {"WORLD_SIZE", "4", "RANK"},
      {"WORLD_SIZE", "zwei", "'zwei'"},   {"WORLD_SIZE", "99999999999", "'99999999999'"},
      {"DIST_TRAIN_VERSION", "7", "'7'"}, {"DIST_TRAIN_VERSION", "1", "DIST_TRAIN_STEP"},
  };
  for (size_t i = 0; i < sizeof kCases / sizeof *kCases; ++i) {
    clearenv();
    setenv(kCases[i].name, kCases[i].value, 1);
    step_t* s = NULL;
    ASSERT_FAILS(NULL, step_open(&s, NULL), STEP_ERR_IDENTITY, kCases[i].text);
    assert_string_not_equal(step_hint(NULL), "");
    assert_null(s);
  }
}

#define WITH_STEP(test) cmocka_unit_test_setup_teardown(test, open_step, close_step)

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_versions_and_names),
      WITH_STEP(test_identity),
      WITH_STEP(test_master_port),
      cmocka_unit_test(test_null_handle),
      cmocka_unit_test(test_options),
      WITH_STEP(test_set_and_get),
      WITH_STEP(test_missing_keys),
      WITH_STEP(test_bad_arguments),
      WITH_STEP(test_add),
      WITH_STEP(test_compare_delete_count),
      WITH_STEP(test_largest_value),
      WITH_STEP(test_collectives_of_one),
      WITH_STEP(test_open_twice),
      cmocka_unit_test(test_identity_errors),
  };
  return cmocka_run_group_tests_name("world of one", tests, NULL, NULL);
}
