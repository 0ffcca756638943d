#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2016,SC2030,SC2031,SC2154 # expanded in the tasks; each test is a subshell
# What srun says about the nodes of a step: once each, with the node and the fix; nothing where
# nothing is wrong. And which GPUs and threads a task takes for its own.
load helper

setup_file() {
  local cpus
  cpus=$(nproc)
  # Nodes with the machine's own CPUs, so that binding to them means something.
  start_cluster bound --conf TaskPlugin=task/affinity --conf "NodeName=node[01-03] CPUs=$cpus Boards=1 \
SocketsPerBoard=1 CoresPerSocket=$cpus ThreadsPerCore=1 RealMemory=2000 Gres=gpu:4 State=UNKNOWN"
  # Where Slurm knows of no GPUs, the user's own list reaches the task.
  start_cluster plain --nodes 1 --gpus 0 --conf GresTypes=nic
  start_cluster gpus # 8 CPUs and 4 GPUs a node, tasks not bound
}
teardown_file() { stop_clusters; }

# says COMMAND...: it succeeds; what it wrote is in $output and $stderr.
says() { run -0 --separate-stderr user "$@"; }
# once TEXT...: each is in one line that srun's side wrote, and in no other.
once() {
  local text
  for text; do
    [ "$(grep '^dist-train: ' <<<"$stderr" | grep -cF -- "$text")" = 1 ] || {
      printf 'not once: %s\n%s\n' "$text" "$stderr"
      return 1
    }
  done
}
silent() { [ -z "$stderr" ] || { echo "$stderr"; return 1; }; }
unsaid() { ! grep -F -- "$1" <<<"$stderr"; }
# On every node of a cluster, or NODE's only.
node() { "$cluster" exec --node "$1" -- "${@:2}"; }

# The variable of each task, in the order of ranks.
jax_ids() {
  says srun "$@" --dist-train sh -c 'echo "$RANK $JAX_LOCAL_DEVICE_IDS"'
  output=$(sort -n <<<"$output" | cut -d' ' -f2 | tr '\n' ' ')
}

@test "a step whose nodes are alike and have enough of everything is told nothing" {
  on bound
  says srun -N3 -n3 -c2 --gpus-per-node=1 --dist-train true
  silent
  says srun -N2 -n2 -c2 --dist-train=limits=raise true
  silent
}

# --- GPUs

isolated() {
  jax_ids -N1 -n2 "$@"
  [ "$output" = "0 0 " ]
  once 'each task on node01 sees GPUs of its own only' 'set_device(LOCAL_RANK)' NVLink \
    --gpus-per-node=N --gpu-bind=none --gres-flags=allow-task-sharing
}
@test "--gpus-per-task isolates GPUs: said with the flags that work, JAX takes device 0 in every task" {
  on gpus
  isolated --gpus-per-task=1
}
@test "--ntasks-per-gpu isolates GPUs" { on gpus; isolated --ntasks-per-gpu=1; }
@test "--gpu-bind=single isolates GPUs" { on gpus; isolated --gpus-per-node=2 --gpu-bind=single:1; }
@test "--gpu-bind=map_gpu isolates GPUs" { on gpus; isolated --gpus-per-node=4 --gpu-bind=map_gpu:2,3; }

@test "the flags that are advised against isolation work: every task sees all, JAX takes its own" {
  on gpus
  for flags in --gpus-per-node=2 '--gpus-per-node=2 --gpu-bind=none' '--gpus=2 --gpu-bind=none'; do
    # shellcheck disable=SC2086 # several words
    jax_ids -N1 -n2 $flags
    [ "$output" = "0 1 " ]
    unsaid 'GPUs of its own'
  done
}

@test "a task a node under --gpus-per-task is not isolated from anybody" {
  on gpus
  jax_ids -N2 -n2 --gpus-per-task=1
  [ "$output" = "0 0 " ]
  unsaid 'GPUs of its own'
}

@test "a job on the last two GPUs of a node: positions count, not Slurm's numbers" {
  on gpus
  says salloc -Q -w node01 -n1 --gpus-per-node=2 env -u SLURM_JOB_ID -u SLURM_JOBID \
    srun -w node01 -n2 --gpus-per-node=2 --dist-train sh -c 'echo "$CUDA_VISIBLE_DEVICES $JAX_LOCAL_DEVICE_IDS"'
  [ "$(sort <<<"$output")" = $'2,3 0\n2,3 1' ]
}

@test "a task alone on its node owns all GPUs of the step there" {
  on gpus
  jax_ids -N2 -n2 --gpus-per-node=4
  [ "$output" = "0,1,2,3 0,1,2,3 " ]
  jax_ids -N1 -n2 --gpus-per-task=2
  [ "$output" = "0,1 0,1 " ]
}

@test "more tasks than GPUs are said, and those beyond get none" {
  on gpus
  jax_ids -N1 -n4 --gpus-per-node=2
  [ "$output" = "0 1   " ]
  once '4 tasks share 2 GPUs on node01' 'Duplicate GPU' --gpus-per-node=4 --dist-train=oversubscribe
  says srun -N1 -n4 --gpus-per-node=2 --dist-train=oversubscribe sh -c 'echo "$RANK $JAX_LOCAL_DEVICE_IDS"'
  [ "$(sort -n <<<"$output")" = $'0 0\n1 1\n2 0\n3 1' ]
  unsaid ' share '
}

@test "GPU counts that differ under one task a node are said" {
  on gpus
  says srun -N3 --ntasks-per-node=1 --gpus=11 --dist-train true
  once 'sees 3 GPUs, the others 4'
}

@test "a node with fewer GPUs than tasks, where others have enough, ends the step" {
  on gpus
  run --separate-stderr user srun -N2 --ntasks-per-node=2 --gpus=3 --dist-train sleep 50
  [ "$status" -ne 0 ]
  [ "$(grep -c 'node02 sees 1 GPU, node01 2; too few for the tasks of node02; the step is ended' <<<"$stderr")" = 1 ]
  eventually 20 all_idle
}

@test "tasks that follow uneven numbers of GPUs are right" {
  on gpus
  jax_ids -N2 -n3 --gpus=3
  [ "$output" = "0 1 0 " ]
  unsaid ' sees '
}

# What torch itself makes of a list, as a number of devices.
torch_counts() {
  "$DIST_TRAIN_BUILD/venv/bin/python" - "$@" <<'PY'
import os, sys, torch
for text in sys.argv[1:]:
    os.environ["CUDA_VISIBLE_DEVICES"] = text
    print(len(torch.cuda._parse_visible_devices()))
PY
}
@test "lists of UUIDs, MIG instances, repeats and nonsense are read as torch reads them" {
  on plain
  # shellcheck disable=SC2054 # commas of the entries
  local list ids lists=(0,1,2 '3, 1' '' -1 0,-1,1 0,,1 NoDevFiles 1,0,1 0,GPU-1d3a GPU-1d3a,0
    GPU-8b2d1c9e-3c0e-5a8f-9a52-0f2f5d2c7f11,GPU-1d3a MIG-GPU-8b2d/1/0,MIG-3a77 GPU-1d3a,GPU-1d3a)
  for list in "${lists[@]}"; do
    says env CUDA_VISIBLE_DEVICES="$list" srun -n1 --dist-train \
      sh -c 'echo "$JAX_LOCAL_DEVICE_IDS"; echo "$CUDA_VISIBLE_DEVICES" >&2'
    grep -qxF -- "$list" <<<"$stderr" # as the user wrote it
    ids=${output//[^,]/}
    [ -z "$output" ] && echo 0 || echo $((${#ids} + 1))
  done >"$BATS_TEST_TMPDIR/ours"
  torch_counts "${lists[@]}" | diff - "$BATS_TEST_TMPDIR/ours"
}

# --- RDMA devices, limits

# Shows RDMA devices on a node, inside its mounts only: rdma NODE [DEVICE]...
rdma() {
  # shellcheck disable=SC2046 # a word each
  node "$1" sh -c 'mount -t tmpfs none /sys/class; for d; do mkdir -p "/sys/class/infiniband/$d"; done' sh "${@:2}"
}
no_rdma() { for n in node01 node02 node03; do node $n umount /sys/class; done; }

@test "RDMA devices that differ, and memory that may not be locked, where there are such devices" {
  on bound
  says sh -c 'ulimit -l 64; srun -N3 -n3 --dist-train true'
  silent
  rdma node01 mlx5_0 mlx5_1
  rdma node02 mlx5_0
  rdma node03 mlx5_0 mlx5_1
  says sh -c 'ulimit -l 64; srun -N3 -n3 --dist-train sh -c "ulimit -l"'
  no_rdma
  [ "$(sort -u <<<"$output")" = 64 ]
  once 'RDMA devices differ: node02 has mlx5_0, the others mlx5_0 mlx5_1' NCCL_IB_HCA \
    'a task may lock 64 KiB of memory on node01, node02, node03' LimitMEMLOCK=infinity PropagateResourceLimitsExcept=MEMLOCK
}

@test "too few open files for the ranks, from the submitting shell; limits=raise is enough" {
  on bound
  says sh -c 'ulimit -Sn 128; srun -N3 -n3 --dist-train sh -c "ulimit -Sn"'
  [ "$(sort -u <<<"$output")" = 128 ]
  once 'a task may open 128 files on node01, node02, node03; 3 ranks may need 192' --dist-train=limits=raise
  says sh -c 'ulimit -Sn 128; srun -N3 -n3 --dist-train=limits=raise sh -c "ulimit -Sn; ulimit -Hn"'
  [ "$(sort -u <<<"$output" | wc -l)" = 1 ]
  [ "${lines[0]}" -gt 192 ]
  silent
}

@test "a small /dev/shm is named with its node and the way to enlarge it" {
  on bound
  node node02 mount -o remount,size=32m /dev/shm
  says srun -N3 -n3 --dist-train true
  node node02 mount -o remount,size=50% /dev/shm
  once '/dev/shm holds 32 MiB on node02; 1 task may need 64 MiB' 'mount -o remount,size=50% /dev/shm'
  says srun -N3 -n3 --dist-train true
  silent
}

# --- cores

@test "srun that does not inherit --cpus-per-task: said, and what it names helps" {
  on bound
  job() { user sbatch -Q --wait -N1 -n1 -c2 --output=out --wrap "$1 srun --exact --dist-train grep Cpus_allowed_list /proc/self/status" && user cat out; }
  stderr=$(job)
  if grep -q '[-,]' <<<"${stderr##*:}"; then skip "this release of Slurm hands --cpus-per-task on"; fi
  once 'SLURM_CPUS_PER_TASK is 2, but a task on node01 may use 1 CPU;' 'srun -c 2' SRUN_CPUS_PER_TASK=2
  stderr=$(job SRUN_CPUS_PER_TASK=2)
  unsaid dist-train:
}

@test "the binding of an interactive step, left to a job that it submits, is why it gets fewer CPUs" {
  on bound
  inner() {
    says srun -n1 -c1 sbatch -Q --wait -N1 -n1 -c2 --output=out --wrap "$1 srun -c2 --dist-train true"
    stderr=$(user cat out)
  }
  inner ''
  once 'SLURM_CPUS_PER_TASK is 2, but a task on ' 'unset SLURM_CPU_BIND'
  inner 'unset SLURM_CPU_BIND SLURM_CPU_BIND_TYPE SLURM_CPU_BIND_LIST;'
  silent
}

@test "one core for a GPU starves its data loader" {
  on bound
  says srun -N2 -n2 -c1 --gpus-per-node=1 --dist-train true
  once 'a task on node01, node02 has 1 core for 1 GPU' 'srun -c N'
  says srun -N2 -n2 -c1 --dist-train true
  silent
}

# threads SRUN-ARGUMENT...: OMP_NUM_THREADS and the CPUs of the mask of each task.
threads() {
  says srun "$@" --dist-train sh -c 'echo "$OMP_NUM_THREADS $(env -u OMP_NUM_THREADS nproc)"'
  output=$(sort -u <<<"$output")
}
@test "OMP_NUM_THREADS is bounded by the mask, and by the tasks that share one" {
  on bound
  threads -n2 -c1
  [ "$output" = '1 1' ]
  threads -n1 -c2
  [ "$output" = '2 2' ]
  threads -n2 --cpu-bind=none
  [ "$output" = "$(($(nproc) / 2)) $(nproc)" ]
  on gpus # nodes that say 8 CPUs
  threads -n8
  [ "${output% *}" -le "$(($(nproc) / 8 + 1))" ]
}

@test "a GPU binding outside of the step's GPUs leaves them to share one, which is said" {
  on gpus
  says srun -N1 -n2 --gpus-per-node=1 --gpu-bind=map_gpu:3 --dist-train true
  once '2 tasks share 1 GPU on node01' --gpus-per-node=2
}

# Last, because it changes gres.conf.
@test "a GPU binding that Slurm cannot satisfy with Cores in gres.conf: what is left is said, and our advice helps" {
  on bound
  [[ $(root slurmd -V) == *22.05* ]] || skip "later releases find the nodes invalid until their daemons restart"
  local dev
  dev=$("$cluster" folder)/dev
  printf 'Name=gpu File=%s/gpu[0-1] Cores=0\nName=gpu File=%s/gpu[2-3] Cores=1\n' "$dev" "$dev" \
    >"$("$cluster" folder)/etc/gres.conf"
  root scontrol reconfigure
  bound_badly() {
    says srun -N1 -n2 --gpus-per-node=1 --gpu-bind=single:1 --dist-train true
    grep -q 'Bind request gpu:single:1 does not specify any devices' <<<"$stderr"
  }
  eventually 20 bound_badly
  once '2 tasks share 1 GPU on node01' --gpus-per-node=2
  jax_ids -N1 -n2 --gpus-per-node=2 --gpu-bind=none
  [ "$output" = "0 1 " ]
  unsaid 'Bind request'
}
