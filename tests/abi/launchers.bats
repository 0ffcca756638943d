#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# Programs of libstep under a real mpirun, and with variables set by hand. PYTHON3, PYTHONPATH and
# DIST_TRAIN_LIBSTEP are of the environment.
bats_require_minimum_version 1.5.0

setup() {
  where=("$PYTHON3" "$BATS_TEST_DIRNAME/where.py")
  here=(env -u RANK -u WORLD_SIZE -u LOCAL_RANK -u MASTER_ADDR -u MASTER_PORT)
}

# mpirun ARGUMENT...: Open MPI's, as anybody, with more ranks than cores.
mpirun() {
  command -v mpirun.openmpi >/dev/null || skip "no Open MPI: tests/setup installs openmpi-bin"
  "${here[@]}" timeout 100 mpirun.openmpi --allow-run-as-root --oversubscribe "$@" 3>&-
}

@test "four ranks of mpirun on one host need no variable" {
  run -0 --separate-stderr mpirun -n 4 "${where[@]}"
  [ "$output" = "rank 0 of 4, 0 of 4 on node 0 of 1: mpirun (Open MPI)
rank 1 of 4, 1 of 4 on node 0 of 1: mpirun (Open MPI)
rank 2 of 4, 2 of 4 on node 0 of 1: mpirun (Open MPI)
rank 3 of 4, 3 of 4 on node 0 of 1: mpirun (Open MPI)" ]
}

@test "two programs of mpirun at once are two worlds" {
  mpirun -n 3 "${where[@]}" >"$BATS_TEST_TMPDIR/one" 2>&1 &
  run -0 --separate-stderr mpirun -n 3 "${where[@]}"
  wait $!
  [ "${#lines[@]}" = 3 ]
  diff <(echo "$output") "$BATS_TEST_TMPDIR/one"
}

@test "mpirun of one rank is a world of one" {
  run -0 --separate-stderr mpirun -n 1 "${where[@]}"
  [ "$output" = "rank 0 of 1, 0 of 1 on node 0 of 1: mpirun (Open MPI)" ]
}

@test "RANK left over in mpirun's environment is an error of every rank" {
  run mpirun -x RANK=0 -x WORLD_SIZE=1 -n 2 "${where[@]}"
  [ "$status" -ne 0 ]
  [[ $output == *"WORLD_SIZE=1 contradicts OMPI_COMM_WORLD_SIZE, which makes it 2 (unset WORLD_SIZE, or start"* ]]
}

@test "dist-train exec under mpirun gives its ranks the whole set" {
  # shellcheck disable=SC2016 # for the shells of the ranks
  run -0 --separate-stderr mpirun -n 2 "$COMMAND" exec -- sh -c 'echo $RANK/$WORLD_SIZE $LOCAL_RANK $MASTER_ADDR ${MASTER_PORT:+port} $DIST_TRAIN_LAYOUT'
  [ "$(sort <<<"$output")" = "0/2 0 127.0.0.1 port $(hostname -s)=0-1
1/2 1 127.0.0.1 port $(hostname -s)=0-1" ]
}

@test "the processes of a launcher that is not known are no worlds of one" {
  local size
  for size in PMI_SIZE MPI_LOCALNRANKS MV2_COMM_WORLD_SIZE HOROVOD_SIZE JSM_NAMESPACE_SIZE; do
    run -1 "${here[@]}" "$size=2" "${where[@]}"
    [[ $output == *"$size=2 is of a launcher that libstep does not know"* ]]
  done
}

# by_hand WORLD RANK=LOCAL_RANK...: the variables of torch for each, in the background, on a free port; what they say
# in files 0, 1, ...
by_hand() {
  local world=$1 pair port pids=()
  shift
  port=$("$PYTHON3" -c 'import socket; s = socket.socket(); s.bind(("", 0)); print(s.getsockname()[1])')
  for pair in "$@"; do
    "${here[@]}" RANK="${pair%=*}" LOCAL_RANK="${pair#*=}" WORLD_SIZE="$world" MASTER_ADDR=127.0.0.1 MASTER_PORT="$port" \
      timeout 100 "${where[@]}" >"$BATS_TEST_TMPDIR/${pair%=*}" 2>&1 3>&- &
    pids+=($!)
  done
  codes=()
  for pair in "${pids[@]}"; do
    local code=0
    wait "$pair" || code=$?
    codes+=("$code")
  done
}

@test "RANK, WORLD_SIZE, LOCAL_RANK and MASTER_* by hand: the ranks find out who is on a host" {
  by_hand 3 0=0 1=1 2=2
  [ "${codes[*]}" = "0 0 0" ]
  [ "$(cat "$BATS_TEST_TMPDIR/0")" = "rank 0 of 3, 0 of 3 on node 0 of 1: the variables RANK and WORLD_SIZE
rank 1 of 3, 1 of 3 on node 0 of 1: the variables RANK and WORLD_SIZE
rank 2 of 3, 2 of 3 on node 0 of 1: the variables RANK and WORLD_SIZE" ]
}

@test "local ranks that do not fit together are named in every rank" {
  by_hand 3 0=0 1=1 2=1
  [ "${codes[*]}" = "1 1 1" ]
  for rank in 0 1 2; do
    grep -q "step_open: rank 2 on host '.*' has the local rank 1; of the ranks there it is number 2 after rank 1 (number" \
      "$BATS_TEST_TMPDIR/$rank"
  done
}

@test "variables that are missing are named, at once, with what to set" {
  for missing in WORLD_SIZE RANK MASTER_ADDR MASTER_PORT; do
    run -1 env RANK=1 WORLD_SIZE=2 LOCAL_RANK=0 MASTER_ADDR=127.0.0.1 MASTER_PORT=29500 \
      env -u $missing timeout 20 "${where[@]}"
    [[ $output == "step_open: $missing is not set, although other variables of its launcher are ("* ]]
  done
}

@test "a pod that asks for torchrun's processes is no rank" {
  run -1 env RANK=1 WORLD_SIZE=4 MASTER_ADDR=master-0 MASTER_PORT=23456 PET_NNODES=2 PET_NODE_RANK=1 \
    PET_NPROC_PER_NODE=2 timeout 20 "${where[@]}"
  [[ $output == "step_open: RANK='1' is the number of a pod, PET_NPROC_PER_NODE='2' processes are wanted in each,"* ]]
  [[ $output == *"torchrun --no-python PROGRAM"* ]]
}

@test "two pods with a process each are two ranks" {
  local port pod pids=()
  port=$("$PYTHON3" -c 'import socket; s = socket.socket(); s.bind(("", 0)); print(s.getsockname()[1])')
  for pod in 0 1; do
    "${here[@]}" PET_NNODES=2 PET_NODE_RANK=$pod PET_NPROC_PER_NODE=1 PET_MASTER_ADDR=127.0.0.1 PET_MASTER_PORT="$port" \
      timeout 100 "${where[@]}" >"$BATS_TEST_TMPDIR/$pod" 2>&1 3>&- &
    pids+=($!)
  done
  for pod in 0 1; do wait "${pids[pod]}"; done
  [ "$(cat "$BATS_TEST_TMPDIR/0")" = "rank 0 of 2, 0 of 1 on node 0 of 2: the variables PET_NODE_RANK and PET_NNODES of a pod
rank 1 of 2, 0 of 1 on node 1 of 2: the variables PET_NODE_RANK and PET_NNODES of a pod" ]
}
