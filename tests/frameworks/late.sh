#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# A step whose last rank is late: once rank 0's program listens, and so waits for it, it does WHAT, a shell's text, and
# then joins, if it is still there. The other ranks run the program at once.
# usage: late.sh WHAT PROGRAM [ARGUMENT]...
listens() { (exec 3<>"/dev/tcp/${MASTER_ADDR:-$PET_MASTER_ADDR}/$1") 2>/dev/null; }

# meet MINE OTHER: stays until the last rank of another step has come as far, which calls its file OTHER.
meet() {
  touch "$1"
  until [ -e "$2" ]; do sleep 0.1; done
}

if [ "$SLURM_PROCID" = $((SLURM_STEP_NUM_TASKS - 1)) ]; then
  until listens "${MASTER_PORT:-$PET_MASTER_PORT}" || listens "$JAX_COORDINATOR_PORT"; do sleep 0.1; done
  eval "$1"
fi
exec "${@:2}"
