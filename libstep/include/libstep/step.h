/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libstep: what a program needs to know and share when every task of a job step is a rank.
 *
 * Conventions
 *   Errors      Functions that can fail return step_err_t: 0 is success, every other value is a
 *               small positive number that can serve as an exit code. step_strerror() names the
 *               class; step_error() gives the sentence for a person (place, value seen, what to do).
 *               Out-parameters are written on success only.
 *   Ownership   Strings returned by the library belong to the handle (or are static) and live until
 *               step_close(), those of step_error() until the next call on that handle.
 *               Buffers given to the library stay the caller's.
 *   Threads     A handle may be used from several threads at once; calls that wait do not block
 *               the others. step_error() is per thread.
 *   Time        Deadlines are in seconds (double); a negative value waits as long as it takes,
 *               0 tests without waiting.
 *   Processes   A child made by fork() (a data loader's worker) must not use the handle: its calls
 *               return STEP_ERR_ARGUMENT, and the parent's connection does not notice the child.
 *   Output      The library prints nothing, never ends the process, and installs no signal handler
 *               before step_catch_signals().
 *   Safety      With the plugin, ranks and store prove to each other that they know the step's
 *               secret token; it never travels. Elsewhere there is no secret: the token is made of
 *               what the ranks share (job, step, MASTER_ADDR) and only keeps steps from being mixed
 *               up. Data are neither encrypted nor signed: use a trusted network.
 */
#ifndef LIBSTEP_STEP_H
#define LIBSTEP_STEP_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define STEP_API __attribute__((visibility("default")))
#else
#define STEP_API
#endif

/* Major * 10000 + minor * 100 + patch, of this header; step_api_version() is the library's. */
#define STEP_API_VERSION 200

/* Bounds of the store. Longer keys or values are refused with STEP_ERR_ARGUMENT. */
#define STEP_KEY_MAX 1024u
#define STEP_VALUE_MAX (64u << 20)

typedef struct step step_t; /* one process's membership of a step; opaque */

typedef enum {
  STEP_OK = 0,
  STEP_ERR_ARGUMENT = 1,    /* a null pointer, a rank out of range, a key or value too long */
  STEP_ERR_IDENTITY = 2,    /* the environment contradicts itself or is malformed */
  STEP_ERR_CONNECT = 3,     /* rank 0's store cannot be reached within the deadline */
  STEP_ERR_AUTH = 4,        /* the peer does not know this step's token */
  STEP_ERR_TIMEOUT = 5,     /* the deadline passed; step_error() names the ranks that did not come */
  STEP_ERR_LOST = 6,        /* waiting is in vain: a rank was lost (it ended without step_close())
                               or left before the others were done; step_error() names it */
  STEP_ERR_NOT_FOUND = 7,   /* no such key */
  STEP_ERR_TOO_SMALL = 8,   /* the caller's buffer is too small; *length says what is needed */
  STEP_ERR_PROTOCOL = 9,    /* the peer speaks another protocol, or an answer is malformed */
  STEP_ERR_MEMORY = 10,
  STEP_ERR_SYSTEM = 11,     /* a system call failed; step_error() has its text */
  STEP_ERR_INTERNAL = 12
} step_err_t;

/* Where the identity was found: torchrun is looked for first, as it may run inside of the others,
   then the plugin, mpirun, Slurm and the variables. */
typedef enum {
  STEP_SOURCE_PLUGIN = 1,   /* srun --dist-train: the DIST_TRAIN_* variables */
  STEP_SOURCE_SLURM = 2,    /* srun alone: SLURM_PROCID and friends */
  STEP_SOURCE_TORCHRUN = 3, /* torchrun: TORCHELASTIC_RUN_ID with RANK, WORLD_SIZE, MASTER_* */
  STEP_SOURCE_SINGLE = 4,   /* none of the others: a world of one */
  STEP_SOURCE_MPIRUN = 5,   /* mpirun of Open MPI, or of MPICH and Intel MPI */
  STEP_SOURCE_VARIABLES = 6 /* RANK and WORLD_SIZE set by hand or by any launcher, PET_* in a pod
                               of Kubeflow, or JAX_NUM_PROCESSES and JAX_PROCESS_ID */
} step_source_t;

typedef struct {
  size_t size;            /* sizeof(step_options_t), for growth */
  double connect_seconds; /* how long step_open() waits for rank 0; 0 means 300 */
  double linger_seconds;  /* how long rank 0 still serves in step_close(); 0 means 30, < 0 none */
  double silence_seconds; /* a rank that gives no sign of life for so long counts as lost; 0 means
                             30, < 0 never. Its main thread may be as busy as it likes: signs come
                             from a thread of the library. Meant are processes that are stopped
                             (SIGSTOP, a freezer) and nodes that are cut off; where one rank of a
                             step is to stand in a debugger, use < 0 in all. Suspending the whole
                             step counts for nothing. */
  double stop_seconds;    /* so long before the job's time limit all ranks are asked to stop, see
                             step_should_stop(); < 0 never; 0 means 60, but at most a tenth of the
                             time left at the first iteration. Rank 0's counts. */
} step_options_t;

STEP_API int step_api_version(void);
STEP_API const char* step_strerror(int code); /* static text, never NULL */

/*
 * Finds out who this process is and joins the step's store; rank 0 serves it from a thread of its
 * own. Collective in effect: returns once the connection to rank 0 stands, not when all are here
 * (step_barrier() does that). Only where nobody says how many ranks each host has (mpirun on
 * several hosts, LOCAL_RANK without LOCAL_WORLD_SIZE) does it wait for all, who tell each other.
 * options may be NULL. On failure *step is untouched and step_error(NULL) has the text for this
 * thread. A process may open the step again if all do: the n-th step_open() of each rank belong
 * together. In rank 0 of a large step the soft limit of open
 * files is raised as far as needed and allowed: each rank is one descriptor.
 */
STEP_API step_err_t step_open(step_t** step, const step_options_t* options);

/*
 * Says goodbye, so that the others do not take this rank for lost, and frees the handle. Rank 0
 * keeps serving until every other rank has come and left or linger_seconds have passed. NULL is
 * fine. No other thread may be using the handle.
 */
STEP_API void step_close(step_t* step);

/*
 * Text of this thread's last failure if it was one on this handle, or "". step may be NULL: of
 * step_open(), or of a call with a NULL handle.
 */
STEP_API const char* step_error(const step_t* step);
STEP_API const char* step_hint(const step_t* step); /* what to do about it, or "" */

/* Identity. Ranks and counts are those of the whole step, all nodes and het components. */
STEP_API int step_rank(const step_t* step);
STEP_API int step_world_size(const step_t* step);
STEP_API int step_local_rank(const step_t* step);
STEP_API int step_local_world_size(const step_t* step); /* tasks of the step on this node */
STEP_API int step_node_rank(const step_t* step);        /* in rank order: rank 0's node is 0 */
STEP_API int step_node_count(const step_t* step);
STEP_API const char* step_node_name(const step_t* step);            /* this node */
STEP_API const char* step_node_of(const step_t* step, int rank);    /* "?" where unknown */
STEP_API step_source_t step_source(const step_t* step);
STEP_API const char* step_source_text(const step_t* step); /* "srun --dist-train (step 4711.0)" */
STEP_API const char* step_strategy(const step_t* step);    /* of --dist-train, or "" */
STEP_API const char* step_id(const step_t* step);          /* "4711.0", or "" outside Slurm */
STEP_API int step_restart_count(const step_t* step);       /* 0 on the first run of a job */

/*
 * Address and port where this program may let its own rank 0 listen (MASTER_ADDR, MASTER_PORT, or
 * a port that rank 0 found free and holds). A server there must set SO_REUSEADDR, as most do.
 */
STEP_API const char* step_master_address(const step_t* step);
STEP_API int step_master_port(const step_t* step);
/* Of rank 0's store, "address:port"; "" in a world of one. */
STEP_API const char* step_store_address(const step_t* step);

/* Store: keys are 1..STEP_KEY_MAX bytes, NUL-terminated; values 0..STEP_VALUE_MAX bytes. */
STEP_API step_err_t step_set(step_t* step, const char* key, const void* value, size_t length);
/*
 * Waits until the key exists. *length is the capacity of value on entry and the value's length on
 * return; with STEP_ERR_TOO_SMALL it is what is needed and value is untouched. Where the key is
 * missing, seconds of 0 give STEP_ERR_NOT_FOUND, others STEP_ERR_TIMEOUT in the end.
 */
STEP_API step_err_t step_get(step_t* step, const char* key, void* value, size_t* length,
                             double seconds);
/* Waits until all keys exist, as step_get() does for one. */
STEP_API step_err_t step_wait(step_t* step, const char* const* keys, size_t count, double seconds);
/* The value is a decimal text; a missing key counts as 0. *result (may be NULL) is the new sum. */
STEP_API step_err_t step_add(step_t* step, const char* key, int64_t delta, int64_t* result);
/*
 * Sets key to desired if its value equals expected; expected NULL means "if the key is missing".
 * *swapped (may be NULL) tells whether it did.
 */
STEP_API step_err_t step_compare_and_set(step_t* step, const char* key, const void* expected,
                                         size_t expected_length, const void* desired,
                                         size_t desired_length, int* swapped);
STEP_API step_err_t step_delete(step_t* step, const char* key, int* existed);
STEP_API step_err_t step_key_count(step_t* step, int64_t* count);

/*
 * Collectives over the store: every rank calls them in the same order, and all return when the last
 * has come. Small data only: they go through rank 0, in all at most STEP_VALUE_MAX bytes. When the
 * deadline of one rank passes every waiting rank gets STEP_ERR_TIMEOUT and step_error() names the
 * ranks that did not come, with their nodes; those get it, too, when they come. Ranks that call
 * different collectives get STEP_ERR_ARGUMENT.
 */
STEP_API step_err_t step_barrier(step_t* step, double seconds);
STEP_API step_err_t step_broadcast(step_t* step, int root, void* data, size_t length,
                                   double seconds);
/* out (world_size * length bytes, rank order) is written on every rank. */
STEP_API step_err_t step_all_gather(step_t* step, const void* in, size_t length, void* out,
                                    double seconds);

/*
 * Waits until a rank is lost (its process ended, its connection broke without step_close(), or it
 * was silent for silence_seconds) and gives the first one; step_error() then says which and where,
 * and the iteration that it last gave to step_should_stop(), which is told once a second (seldomer
 * in steps of more than a thousand ranks): "rank 9 (gpu02, local 1, last at iteration 1831) was
 * lost: ...". So do the texts of deadlines that passed. STEP_ERR_TIMEOUT when none was lost
 * in time; STEP_ERR_NOT_FOUND after step_close_watch(), or once rank 0 has closed the step. Meant
 * for a thread of the caller.
 */
STEP_API step_err_t step_wait_lost(step_t* step, int* rank, double seconds);
/* Wakes a thread in step_wait_lost(), so that it can be joined before step_close(). */
STEP_API void step_close_watch(step_t* step);

/*
 * Ending in order. All ranks stop after the same iteration:
 *
 *   step_catch_signals(s, NULL, 0);
 *   for (int64_t i = first; i < last; ++i) {
 *     train();
 *     if (step_should_stop(s, i)) { save(); if (step_rank(s) == 0) step_requeue(s); break; }
 *   }
 *
 * A stop is asked for by step_request_stop() or a signal in any rank, or by the time limit of the
 * job. Every rank gives the same numbers of iterations, in rising order; 1 means stop, and all get
 * it at the same number. The first call is one exchange of messages; while nobody asks, the others
 * cost well below a microsecond and no message; then one exchange more, once. Always 0 once rank 0
 * was lost, when nothing can be agreed on any more; step_error() says so.
 */
STEP_API int step_should_stop(step_t* step, int64_t iteration);
/* reason: for people, at most 255 bytes are kept. The first of all ranks' stays. */
STEP_API step_err_t step_request_stop(step_t* step, const char* reason);
/* "SIGUSR1 reached rank 3 (node02)"; "" while no stop was asked for. Lives as long as the handle. */
STEP_API const char* step_stop_reason(step_t* step);
/*
 * Makes these signals (none: SIGTERM and SIGUSR1) ask for a stop instead of what they did, until
 * step_close(). The library does so on this call only. One step of a process at a time; other
 * handlers of theirs are not called. Slurm signals all processes of a step: in forked children
 * they are ignored unless they come from the parent, for which they have their former effect.
 */
STEP_API step_err_t step_catch_signals(step_t* step, const int* signals, size_t count);
/*
 * Until the job's time limit; HUGE_VAL where there is none or none is known. From
 * SLURM_JOB_END_TIME or, where Slurm does not set it, from squeue, asked once a step.
 */
STEP_API double step_seconds_left(step_t* step);
/*
 * Puts the job back into the queue (a task of an array: that task; a heterogeneous job: all of it)
 * and so ends it: save first. One rank is enough. Asks srun to do it, which works from containers;
 * without the plugin it runs scontrol here. STEP_ERR_SYSTEM with what Slurm said, such as that the
 * job may not be requeued.
 */
STEP_API step_err_t step_requeue(step_t* step);

#ifdef __cplusplus
}
#endif

#endif
