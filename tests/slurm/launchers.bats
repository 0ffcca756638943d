#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# Other launchers than srun on hosts with addresses of their own: variables set by hand, as over ssh
# or pdsh, mpirun in an allocation of Slurm, and srun and mpirun in one another.
# shellcheck disable=SC2016,SC2154 # for the shells that are started; from the helper
load helper

setup_file() { start_cluster launchers; }
teardown_file() { stop_clusters; }

setup() {
  root=$(cd "$BATS_TEST_DIRNAME/../.." && pwd)
  where=(env PYTHONDONTWRITEBYTECODE=1 PYTHONPATH="$root/libstep/python"
    DIST_TRAIN_LIBSTEP="$DIST_TRAIN_BUILD/lib/libstep.so.0" python3 "$root/tests/abi/where.py")
  said=$BATS_TEST_TMPDIR
}

# by_hand NODE FILE NAME=VALUE...: the program with these variables, as pdsh would start it, in the background.
by_hand() {
  "$cluster" exec --user "$("$cluster" user)" --node "$1" -- timeout 100 env "${@:3}" "${where[@]}" >"$said/$2" 2>&1 3>&- &
}

@test "by hand on three hosts, 2+1+1: the ranks find out who is where" {
  common=(WORLD_SIZE=4 MASTER_ADDR=node01 MASTER_PORT=29500)
  by_hand node01 0 "${common[@]}" RANK=0 LOCAL_RANK=0
  by_hand node01 1 "${common[@]}" RANK=1 LOCAL_RANK=1
  by_hand node02 2 "${common[@]}" RANK=2 LOCAL_RANK=0
  by_hand node03 3 "${common[@]}" RANK=3 LOCAL_RANK=0
  wait
  [ "$(cat "$said/0")" = "rank 0 of 4, 0 of 2 on node 0 of 3: the variables RANK and WORLD_SIZE
rank 1 of 4, 1 of 2 on node 0 of 3: the variables RANK and WORLD_SIZE
rank 2 of 4, 0 of 1 on node 1 of 3: the variables RANK and WORLD_SIZE
rank 3 of 4, 0 of 1 on node 2 of 3: the variables RANK and WORLD_SIZE" ]
}

@test "JAX's three variables on two hosts" {
  for host in 0 1; do
    by_hand node0$((host + 1)) $host JAX_NUM_PROCESSES=2 JAX_PROCESS_ID=$host JAX_COORDINATOR_ADDRESS=node01:29500
  done
  wait
  grep -q 'rank 1 of 2, 0 of 1 on node 1 of 2: the variables JAX_PROCESS_ID and JAX_NUM_PROCESSES' "$said/0"
}

@test "mpirun over the hosts of an allocation, whose daemons are tasks of Slurm" {
  need_mpirun
  run -0 --separate-stderr user salloc -N2 --ntasks-per-node=2 mpirun.openmpi --oversubscribe -x MASTER_ADDR=node01 -n 3 "${where[@]}"
  [ "$output" = "rank 0 of 3, 0 of 2 on node 0 of 2: mpirun (Open MPI)
rank 1 of 3, 1 of 2 on node 0 of 2: mpirun (Open MPI)
rank 2 of 3, 0 of 1 on node 1 of 2: mpirun (Open MPI)" ]
}

@test "dist-train exec under mpirun over the hosts of an allocation gives any program its variables" {
  need_mpirun
  run -0 --separate-stderr user salloc -N2 --ntasks-per-node=2 mpirun.openmpi --oversubscribe -x MASTER_ADDR=node01 -n 3 \
    dist-train exec -- sh -c 'echo "$RANK/$WORLD_SIZE $LOCAL_RANK/$LOCAL_WORLD_SIZE $MASTER_ADDR ${MASTER_PORT:+port}"'
  [ "$(sort <<<"$output")" = "0/3 0/2 node01 port
1/3 1/2 node01 port
2/3 0/1 node01 port" ]
}

@test "mpirun over several hosts without MASTER_ADDR says what to add" {
  need_mpirun
  run user salloc -N2 --ntasks-per-node=2 mpirun.openmpi --oversubscribe -n 3 "${where[@]}"
  [ "$status" -ne 0 ]
  [[ $output == *"step_open: MASTER_ADDR is not set, and of the 3 ranks of mpirun only "*"mpirun -x MASTER_ADDR=HOST"* ]]
}

@test "mpirun inside of tasks of srun --dist-train is told apart" {
  need_mpirun
  run user srun -N1 -n1 --dist-train mpirun.openmpi --oversubscribe -n 2 "${where[@]}"
  [ "$status" -ne 0 ]
  [[ $output == *"contradicts srun --dist-train around it"* ]]
}
