/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A rank that opens the step, meets all others in a barrier and ends. Prints when it was past the
 * barrier (CLOCK_MONOTONIC, the machine's own) and the CPU seconds this process and the children it
 * has waited for have taken, those before its program began included.
 * usage: bench_past_barrier [cpu]; with `cpu` it opens no step and says only what it took.
 */
#define _GNU_SOURCE
#include <libstep/step.h>

#include <stdio.h>
#include <sys/resource.h>
#include <time.h>

static double seconds(clockid_t clock) {
  struct timespec now;
  clock_gettime(clock, &now);
  return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static double span(struct timeval time) { return (double)time.tv_sec + (double)time.tv_usec / 1e6; }

int main(int argc, char** argv) {
  (void)argv;
  if (argc > 1) {
    struct rusage children;
    getrusage(RUSAGE_CHILDREN, &children);
    printf("%.6f\n",
           seconds(CLOCK_PROCESS_CPUTIME_ID) + span(children.ru_utime) + span(children.ru_stime));
    return 0;
  }
  step_t* s = NULL;
  if (step_open(&s, NULL) != STEP_OK || step_barrier(s, 60) != STEP_OK) {
    fprintf(stderr, "bench_past_barrier: %s\n", step_error(s));
    return 1;
  }
  printf("%.6f\n", seconds(CLOCK_MONOTONIC));
  fflush(stdout);
  step_close(s);
  return 0;
}
