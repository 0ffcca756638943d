/* SPDX-License-Identifier: BSD-3-Clause */
/* A world of one for each test, and what a failing call must say. Include after <cmocka.h>. */
#ifndef TESTS_ABI_SINGLE_H
#define TESTS_ABI_SINGLE_H

#include <libstep/step.h>

#include <stdlib.h>
#include <string.h>

static int open_step(void** state) {
  clearenv();
  step_t* step = NULL;
  assert_int_equal(step_open(&step, NULL), STEP_OK);
  *state = step;
  return 0;
}

static int close_step(void** state) {
  step_close(*state);
  return 0;
}

#define ASSERT_FAILS(step, call, code, text)                                                       \
  do {                                                                                             \
    assert_int_equal(call, code);                                                                  \
    if (strstr(step_error(step), text) == NULL)                                                    \
      fail_msg("'%s' does not contain '%s'", step_error(step), text);                              \
  } while (0)

#endif
