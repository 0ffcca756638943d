/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A world of real processes of which one is killed while the others wait: half of them in a
 * barrier, half for a lost rank. How long until each knows? usage: bench_lost_rank RANKS. Prints
 * one JSON object: seconds from before the kill to the median and the last waiter's return, for
 * both kinds of waiting.
 */
#define _GNU_SOURCE
#include <libstep/step.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <netinet/in.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static double* woken; /* of each rank; shared */

static double seconds_now(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void give_up(const char* what, const step_t* s) {
  fprintf(stderr, "bench_lost_rank: %s: %s\n", what, step_error(s));
  exit(1);
}

static void set_number(const char* name, int value) {
  char text[16];
  snprintf(text, sizeof text, "%d", value);
  setenv(name, text, 1);
}

/* The environment of a rank as the plugin makes it, on one node. */
static void set_world(int ranks, int port, int fd) {
  char text[64];
  set_number("WORLD_SIZE", ranks);
  set_number("LOCAL_WORLD_SIZE", ranks);
  set_number("NODE_RANK", 0);
  setenv("DIST_TRAIN_VERSION", "1", 1);
  setenv("DIST_TRAIN_MODE", "torch", 1);
  setenv("DIST_TRAIN_STEP", "1.0", 1);
  setenv("DIST_TRAIN_TOKEN", "00112233445566778899aabbccddeeff", 1);
  setenv("MASTER_ADDR", "127.0.0.1", 1);
  set_number("MASTER_PORT", port);
  set_number("DIST_TRAIN_STORE_FD", fd);
  snprintf(text, sizeof text, "127.0.0.1:%d", port);
  setenv("DIST_TRAIN_STORE", text, 1);
  snprintf(text, sizeof text, "node01=0-%d", ranks - 1);
  setenv("DIST_TRAIN_LAYOUT", text, 1);
}

static int be_rank(int rank, int ranks) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  set_number("RANK", rank);
  set_number("LOCAL_RANK", rank);
  if (rank != 0)
    unsetenv("DIST_TRAIN_STORE_FD");
  step_t* s = NULL;
  if (step_open(&s, NULL) != STEP_OK)
    give_up("step_open", NULL);
  if (step_barrier(s, 120) != STEP_OK)
    give_up("the barrier of all", s);
  const int last = ranks - 1;
  if (rank == last) {
    /* When all others have said that they are about to wait, the parent may kill this one. */
    char key[32];
    for (int other = 0; other < last; ++other) {
      snprintf(key, sizeof key, "waits/%d", other);
      const char* keys[] = {key};
      if (step_wait(s, keys, 1, 120) != STEP_OK)
        give_up("the others", s);
    }
    woken[rank] = 1;
    for (;;)
      pause();
  }
  char key[32];
  snprintf(key, sizeof key, "waits/%d", rank);
  if (step_set(s, key, "", 0) != STEP_OK)
    give_up("step_set", s);
  int lost = -1;
  const step_err_t code = rank % 2 ? step_barrier(s, 60) : step_wait_lost(s, &lost, 60);
  woken[rank] = seconds_now();
  if (rank % 2 ? code != STEP_ERR_LOST : code != STEP_OK || lost != last)
    give_up("woken for another reason", s);
  step_close(s); /* rank 0 serves on until all have left */
  return 0;
}

static int by_value(const void* a, const void* b) {
  const double x = *(const double*)a, y = *(const double*)b;
  return (x > y) - (x < y);
}

int main(int argc, char** argv) {
  const int ranks = argc == 2 ? atoi(argv[1]) : 0;
  if (ranks < 4 || ranks > 20000) {
    fprintf(stderr, "usage: bench_lost_rank RANKS (4 to 20000)\n");
    return 2;
  }
  const size_t size = sizeof *woken * (size_t)ranks;
  woken = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  struct sockaddr_in address = {.sin_family = AF_INET};
  socklen_t length = sizeof address;
  if (woken == MAP_FAILED || fd < 0 || bind(fd, (struct sockaddr*)&address, sizeof address) != 0 ||
      listen(fd, SOMAXCONN) != 0 || getsockname(fd, (struct sockaddr*)&address, &length) != 0) {
    perror("bench_lost_rank");
    return 1;
  }
  set_world(ranks, ntohs(address.sin_port), fd);
  pid_t* pids = calloc((size_t)ranks, sizeof *pids);
  for (int rank = 0; rank < ranks; ++rank) {
    pids[rank] = fork();
    if (pids[rank] == 0) {
      if (rank != 0)
        close(fd);
      return be_rank(rank, ranks);
    }
  }
  close(fd);
  const int last = ranks - 1;
  const struct timespec moment = {0, 1000000};
  while (((volatile double*)woken)[last] == 0 && waitpid(-1, NULL, WNOHANG) == 0)
    nanosleep(&moment, NULL);
  /* A rank between its word and its wait learns of the loss from the wait all the same. */
  const double begin = seconds_now();
  kill(pids[last], SIGKILL);
  int failed = 0;
  for (int rank = 0; rank < last; ++rank) {
    int status = 0;
    if (waitpid(pids[rank], &status, 0) != pids[rank] || status != 0)
      ++failed;
  }
  if (failed != 0) {
    fprintf(stderr, "bench_lost_rank: %d ranks failed\n", failed);
    return 1;
  }
  for (int rank = 0; rank < last; ++rank)
    woken[rank] -= begin;
  qsort(woken, (size_t)last, sizeof *woken, by_value);
  printf("{\"median\": %.4f, \"worst\": %.4f}\n", woken[last / 2], woken[last - 1]);
  return 0;
}
