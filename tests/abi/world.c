/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "world.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <netinet/in.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

double seconds_now(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

void set_number(const char* name, long value) {
  char text[32];
  snprintf(text, sizeof text, "%ld", value);
  setenv(name, text, 1);
}

int bound_socket(int* port) {
  int fd = socket(AF_INET, SOCK_STREAM, 0);
  assert_true(fd >= 0);
  int one = 1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  struct sockaddr_in address = {.sin_family = AF_INET};
  socklen_t size = sizeof address;
  assert_int_equal(bind(fd, (struct sockaddr*)&address, sizeof address), 0);
  assert_int_equal(getsockname(fd, (struct sockaddr*)&address, &size), 0);
  *port = ntohs(address.sin_port);
  return fd;
}

int world_node_of(const struct world* world, int rank) {
  int node = 0;
  for (int first = 0; first + world->tasks[node] <= rank; ++node)
    first += world->tasks[node];
  return node;
}

static int first_rank(const struct world* world, int node) {
  int first = 0;
  for (int i = 0; i < node; ++i)
    first += world->tasks[i];
  return first;
}

void world_init(struct world* world, int nodes, const int* tasks) {
  memset(world, 0, sizeof *world);
  world->nodes = nodes;
  world->tasks = tasks;
  for (int i = 0; i < nodes; ++i)
    world->size += tasks[i];
  assert_true(world->size <= WORLD_MAX);
  world->store_fd = bound_socket(&world->store_port);
  assert_int_equal(listen(world->store_fd, 4096), 0);
  world->port_fd = bound_socket(&world->program_port);
  unsigned char secret[16];
  assert_int_equal(getrandom(secret, sizeof secret, 0), sizeof secret);
  for (size_t i = 0; i < sizeof secret; ++i)
    snprintf(world->token + 2 * i, 3, "%02x", secret[i]);
}

void world_free(struct world* world) {
  close(world->store_fd);
  close(world->port_fd);
}

void world_spawn(struct world* world, int rank, launcher launch, rank_body body) {
  fflush(NULL);
  const pid_t pid = fork();
  assert_true(pid >= 0);
  if (pid > 0) {
    world->pids[rank] = pid;
    return;
  }
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  clearenv();
  launch(world, rank);
  if (rank != 0) {
    close(world->store_fd);
    close(world->port_fd);
  }
  const int code = body(world, rank);
  fflush(NULL);
  _exit(code);
}

int world_wait(struct world* world, int rank) {
  int status = 0;
  assert_int_equal(waitpid(world->pids[rank], &status, 0), world->pids[rank]);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

void world_run(struct world* world, launcher launch, rank_body body) {
  for (int rank = 0; rank < world->size; ++rank)
    world_spawn(world, rank, launch, body);
  int failed = 0;
  for (int rank = 0; rank < world->size; ++rank) {
    const int code = world_wait(world, rank);
    if (code != 0) {
      print_error("rank %d ended with %d\n", rank, code);
      ++failed;
    }
  }
  assert_int_equal(failed, 0);
}

static void set_ranks(struct world* world, int rank) {
  const int node = world_node_of(world, rank);
  set_number("RANK", rank);
  set_number("WORLD_SIZE", world->size);
  set_number("LOCAL_RANK", rank - first_rank(world, node));
  set_number("LOCAL_WORLD_SIZE", world->tasks[node]);
  set_number("GROUP_RANK", node);
  set_number("GROUP_WORLD_SIZE", world->nodes);
  setenv("MASTER_ADDR", "127.0.0.1", 1);
  set_number("MASTER_PORT", world->program_port);
}

void launch_by_plugin(struct world* world, int rank) {
  set_ranks(world, rank);
  set_number("NODE_RANK", world_node_of(world, rank));
  char layout[1024] = "";
  for (int node = 0; node < world->nodes; ++node) {
    const int first = first_rank(world, node);
    const size_t used = strlen(layout);
    snprintf(layout + used, sizeof layout - used, "%snode%02d=%d-%d", node ? ";" : "", node + 1,
             first, first + world->tasks[node] - 1);
  }
  char text[64];
  setenv("DIST_TRAIN_VERSION", "1", 1);
  setenv("DIST_TRAIN_MODE", "torch", 1);
  setenv("DIST_TRAIN_STRATEGY", "fsdp", 1);
  snprintf(text, sizeof text, "4711.%d", world->step);
  setenv("DIST_TRAIN_STEP", text, 1);
  setenv("DIST_TRAIN_LAYOUT", layout, 1);
  snprintf(text, sizeof text, "127.0.0.1:%d", world->store_port);
  setenv("DIST_TRAIN_STORE", text, 1);
  setenv("DIST_TRAIN_TOKEN", world->token, 1);
  setenv("DIST_TRAIN_RESTART_COUNT", "2", 1);
  if (rank == 0) {
    set_number("DIST_TRAIN_STORE_FD", world->store_fd);
    set_number("DIST_TRAIN_PORT_FD", world->port_fd);
  }
}

void launch_by_srun(struct world* world, int rank) {
  /* One node, which is this one: names of others would not resolve. The job is this process, so
     that two runs of the tests do not meet. */
  set_number("SLURM_JOB_ID", getppid());
  set_number("SLURM_STEP_ID", world->step);
  set_number("SLURM_PROCID", rank);
  set_number("SLURM_LOCALID", rank);
  set_number("SLURM_NODEID", 0);
  set_number("SLURM_STEP_NUM_TASKS", world->size);
  set_number("SLURM_STEP_TASKS_PER_NODE", world->size);
  setenv("SLURM_STEP_NODELIST", "localhost", 1);
  setenv("SLURMD_NODENAME", "localhost", 1);
  char ranks[4 * WORLD_MAX] = "";
  for (int i = 0; i < world->size; ++i) {
    const size_t used = strlen(ranks);
    snprintf(ranks + used, sizeof ranks - used, "%s%d", i ? "," : "", i);
  }
  setenv("SLURM_GTIDS", ranks, 1);
}

void launch_by_torchrun(struct world* world, int rank) {
  set_ranks(world, rank);
  setenv("ROLE_NAME", "default", 1);
  setenv("TORCHELASTIC_RUN_ID", "none", 1);
  setenv("TORCHELASTIC_RESTART_COUNT", "1", 1);
  setenv("TORCHELASTIC_USE_AGENT_STORE", "True", 1);
}

step_t* opened(void) {
  step_t* s = NULL;
  const step_options_t options = {.size = sizeof options, .connect_seconds = 60};
  if (step_open(&s, &options) != STEP_OK) {
    fprintf(stderr, "step_open: %s (%s)\n", step_error(NULL), step_hint(NULL));
    _exit(2);
  }
  return s;
}

int says(const step_t* s, const char* text) { return strstr(step_error(s), text) != NULL; }

int signal_key(step_t* s, const char* key) { return step_set(s, key, "", 0) == STEP_OK; }

int await_key(step_t* s, const char* key) { return step_wait(s, &key, 1, 60) == STEP_OK; }

void run_world(int nodes, const int* tasks, launcher launch, rank_body body, void* data) {
  struct world world;
  world_init(&world, nodes, tasks);
  world.data = data;
  world_run(&world, launch, body);
  world_free(&world);
}
