/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Worlds of real processes for the tests: each rank is a fork with the environment that a launcher
 * would give it. Ranks report through their exit codes; they die with the test.
 */
#ifndef TESTS_ABI_WORLD_H
#define TESTS_ABI_WORLD_H

#include <libstep/step.h>

#include <stdio.h>
#include <sys/types.h>

#define WORLD_MAX 64

/* In a rank's body: a failed check is printed with the library's text and ends the rank. */
#define CHECK(step, condition)                                                                     \
  do {                                                                                             \
    if (!(condition)) {                                                                            \
      fprintf(stderr, "%s:%d: rank %d: not so: %s [%s]\n", __FILE__, __LINE__,                     \
              (step) ? step_rank(step) : -1, #condition, step_error(step));                        \
      return 1;                                                                                    \
    }                                                                                              \
  } while (0)

struct world {
  int size;
  int nodes; /* node i has tasks[i] neighbouring ranks and is called node0(i+1) */
  const int* tasks;
  int store_fd, port_fd; /* what rank 0 inherits */
  int store_port, program_port;
  char token[33];
  int step;   /* number of the step in job 4711 */
  void* data; /* for the ranks' bodies; copied by fork */
  pid_t pids[WORLD_MAX];
};

/* Returns the rank's exit code. */
typedef int (*rank_body)(struct world* world, int rank);
/* Sets the environment of a rank, which is empty. */
typedef void (*launcher)(struct world* world, int rank);

/* Sockets, ports and a fresh token, as the plugin makes them. */
void world_init(struct world* world, int nodes, const int* tasks);
void world_spawn(struct world* world, int rank, launcher launch, rank_body body);
/* Waits for a rank: its exit code, or 1000 + the signal that ended it. */
int world_wait(struct world* world, int rank);
/* All ranks at once; asserts that each returns 0. */
void world_run(struct world* world, launcher launch, rank_body body);
void world_free(struct world* world);
/* All of this in one go. */
void run_world(int nodes, const int* tasks, launcher launch, rank_body body, void* data);

void launch_by_plugin(struct world* world, int rank);
void launch_by_srun(struct world* world, int rank);
void launch_by_torchrun(struct world* world, int rank);
int world_node_of(const struct world* world, int rank);

/* For bodies: an open step, or the end of the rank; whether step_error() has a text; keys without
   values as signals from rank to rank. */
step_t* opened(void);
int says(const step_t* s, const char* text);
int signal_key(step_t* s, const char* key);
int await_key(step_t* s, const char* key);

void set_number(const char* name, long value);
/* A TCP socket bound to a free port on all IPv4 addresses. */
int bound_socket(int* port);
double seconds_now(void); /* monotonic */

#endif
