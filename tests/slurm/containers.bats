#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# Beside a plugin that puts tasks into containers as pyxis does (plugin/container_plugin.cpp): it
# brings the image's variables over the task's and takes the node's /sys, /proc/sys and /run away.
# shellcheck disable=SC2016,SC2154 # for the shell of a task; from the helper
load helper

setup_file() {
  start_cluster containers
  folder=$("$cluster" folder)
  lines=$folder/etc/plugstack.conf.d
  container=$DIST_TRAIN_BUILD/lib/container_plugin.so
  [ "${DIST_TRAIN_SLURM:-22.05}" = 22.05 ] || container=$DIST_TRAIN_BUILD/slurm/$DIST_TRAIN_SLURM/lib/container_plugin.so
  export folder lines container
  user sh -c 'cat >image' <<'END'
PYTORCH_VERSION=2.13
RANK=77
WORLD_SIZE=99
LOCAL_WORLD_SIZE=99
NODE_RANK=9
MASTER_ADDR=192.0.2.1
MASTER_PORT=61000
OMP_NUM_THREADS=33
NCCL_DEBUG=WARN
DIST_TRAIN_STORE=192.0.2.1:61001
TORCHELASTIC_RUN_ID=image
END
}
teardown_file() { stop_clusters; }

# The container's line stands before ours, as pyxis.conf does, or after it.
before() { mv "$lines"/*container.conf "$lines/container.conf" 2>/dev/null || echo "required $container" >"$lines/container.conf"; }
after() { before && mv "$lines/container.conf" "$lines/zzz-container.conf"; }

with_libstep() {
  user "$@" env PYTHONDONTWRITEBYTECODE=1 PYTHONPATH="$BATS_TEST_DIRNAME/../../libstep/python" \
    DIST_TRAIN_LIBSTEP="$DIST_TRAIN_BUILD/lib/libstep.so.0" python3 "$BATS_TEST_DIRNAME/../abi/where.py"
}

@test "the container is one: other variables, and nothing of the node in /sys, /proc/sys and /run" {
  before
  run -0 user srun -n1 --container-image=image sh -c 'ls /sys /proc/sys; cat /run/container; echo; echo $MASTER_ADDR $RANK'
  [ "${lines[*]}" = "/proc/sys: /sys: image 192.0.2.1 0" ]
}

@test "listed before ours: our variables and the held sockets are those of the step" {
  before
  user rm -rf reports
  user srun -N3 -n6 --container-image=image --container-env=OMP_NUM_THREADS --dist-train "$python" "$report" reports
  run -0 check node01=0,1,2,3 node02=4 node03=5
  [ "$(reported NCCL_DEBUG)" = WARN ] # of the image, and none of ours
}

@test "a variable that the image sets and we leave to the user stays the image's" {
  before
  user rm -rf reports
  user srun -N2 -n2 --container-image=image --dist-train "$python" "$report" reports
  USERS_THREADS=33 run -0 check node01=0 node02=1
}

@test "--container-env with our names changes nothing" {
  before
  run -0 user env MASTER_ADDR=198.51.100.1 srun -n1 --container-image=image --container-env=MASTER_ADDR,RANK,WORLD_SIZE \
    --dist-train sh -c 'echo $RANK/$WORLD_SIZE $MASTER_ADDR $NCCL_DEBUG'
  [[ $output == *"0/1 10.77.0.1 WARN" ]]
}

@test "the machine is read before the container is entered" {
  before
  local bare
  for way in "" --container-image=image; do
    # shellcheck disable=SC2086 # no word where there is no container
    run -0 --separate-stderr user srun -N1 -n2 $way --dist-train=verbose,bind=numa sh -c 'echo $DIST_TRAIN_NUMA'
    [ "${#lines[@]}" = 2 ]
    [[ ${lines[0]} =~ ^[0-9] ]]
    [[ $stderr != *"cannot read"* ]]
    [ -z "$way" ] && bare=$output
  done
  [ "$output" = "$bare" ]
}

@test "libstep meets over the held sockets in the container" {
  before
  run -0 with_libstep srun -N3 -n4 --container-image=image --dist-train
  [ "$(grep -c '^rank [0-3] of 4, .*: srun --dist-train (step ' <<<"$output")" = 4 ]
}

@test "listed after ours: the image's variables win, and libstep says which, and why" {
  after
  user sh -c 'echo WORLD_SIZE=99 >wrong_world; echo RANK=1 >wrong_rank; echo PYTORCH_VERSION=2.13 >pytorch'
  run -1 with_libstep srun -n1 --container-image=wrong_world --dist-train
  [[ $output == *"step_open: DIST_TRAIN_LAYOUT='node01=0' has 1 ranks, WORLD_SIZE=99 "*"plugin that plugstack.conf lists after"* ]]
  run ! with_libstep srun -N2 -n2 --container-image=wrong_rank --dist-train
  [[ $output == *"step_open: RANK='1' was set by someone after the plugin, which gave rank 0 of 2"*"lists after dist-train"* ]]
  # What an image of PyTorch changes by itself is the same in either order.
  run -0 with_libstep srun -N3 -n4 --container-image=pytorch --dist-train
  [ "$(grep -c '^rank [0-3] of 4, ' <<<"$output")" = 4 ]
}
