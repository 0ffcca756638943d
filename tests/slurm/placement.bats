#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2016
# Cores, memory, GPU and NIC of tasks on nodes that have the machine's own first two CPUs: in one
# cluster Slurm binds tasks (task/affinity), in the other it leaves that to us.
load helper

setup_file() {
  local name cores='CPUs=2 Boards=1 SocketsPerBoard=1 CoresPerSocket=2 ThreadsPerCore=1'
  for name in affinity none; do
    start_cluster "$name" --nodes 2 --gpus 2 --conf "TaskPlugin=task/$name" \
      --conf "NodeName=node[01-02] $cores RealMemory=2000 Gres=gpu:2 State=UNKNOWN"
  done
}
teardown_file() { stop_clusters; }

# From here on the plugstack line says what the nodes are: node01 as below, node02 is without a file.
# GPUs and NICs run against the CPUs, and two CPUs are of another NUMA node.
described() {
  on "$1"
  local etc
  etc=$("$cluster" folder)/etc
  cat >"$etc/machine-node01" <<'END'
dist-train-machine 1
numa 0 package=0 cpus=0-1
numa 1 package=1 cpus=2-3
cores package=0 cache=0 0
cores package=0 cache=1 1
cores package=1 cache=2 2 3
gpu 0000:1b:00.0 id=10de:2330 host=1 bridges=0000:18:00.0/0000:19:00.0 numa=0 cpus=1
gpu 0000:43:00.0 id=10de:2330 host=0 bridges=0000:40:00.0/0000:41:00.0 numa=0 cpus=0
nic 0000:1a:00.0 id=15b3:1021 class=0207 host=1 bridges=0000:18:00.0/0000:19:01.0 numa=0 cpus=1 rdma=mlx5_3 port=1:active:infiniband:400000
nic 0000:42:00.0 id=15b3:1021 class=0207 host=0 bridges=0000:40:00.0/0000:41:01.0 numa=0 cpus=0 rdma=mlx5_0 port=1:active:infiniband:400000
END
  sed -i "s|\.so.*|.so topology=$etc/machine-%n|" "$etc"/plugstack.conf.d/*.conf
}
undescribed() { sed -i 's|\.so.*|.so|' "$("$cluster" folder)"/etc/plugstack.conf.d/*.conf; }
teardown() { undescribed; }

# masks COMMAND...: runs srun; gives "PROCESS CPUS MEMORY" of each task as the kernel tells it inside: its
# mask and the policy of its memory.
masks() {
  user "$@" "$python" -c '
import os
policy = open("/proc/self/numa_maps").readline().split()[1]
cpus = ",".join(map(str, sorted(os.sched_getaffinity(0))))
os.write(1, "{} {} {}\n".format(os.environ["SLURM_PROCID"], cpus, policy).encode())' 2>"$BATS_TEST_TMPDIR/said" | sort
}

# Rows of the table that the last `masks` brought, and whether it said a text.
rows() { tr -s ' ' <"$BATS_TEST_TMPDIR/said" | sed -n 's/^dist-train: \(node0[12] [0-9]\)/\1/p'; }
said() { grep -qF -- "$1" "$BATS_TEST_TMPDIR/said" || { cat "$BATS_TEST_TMPDIR/said"; return 1; }; }

# are COMMAND... -- LINE...: it prints these lines.
are() {
  local command=()
  while [ "$1" != -- ]; do command+=("$1"); shift; done
  diff <(printf '%s\n' "${@:2}") <("${command[@]}") >&2 || { cat "$BATS_TEST_TMPDIR/said" >&2; return 1; }
}

@test "two tasks on two cores are bound apart, by Slurm or by us" {
  for name in affinity none; do
    on "$name"
    are masks srun -N1 -n2 --dist-train -- '0 0 default' '1 1 default'
  done
}

@test "what Slurm has bound by itself stays, unless bind= asks for more" {
  on affinity
  are masks srun -N1 -n2 --dist-train=verbose -- '0 0 default' '1 1 default'
  are rows -- 'node01 0 0 - 0 0 kept - -' 'node01 1 1 - 0 1 kept - -'
  are masks srun -N1 -n2 --dist-train=verbose,bind=numa -- '0 0,1 default' '1 0,1 default'
  are rows -- 'node01 0 0 - 0 0-1 - -' 'node01 1 1 - 0 0-1 - -'
}

@test "--cpu-bind stays, said on the line or in the environment; none leaves it to bind= beside it" {
  on affinity
  are masks srun -N1 -n2 --cpu-bind=map_cpu:1,0 --dist-train=verbose -- '0 1 default' '1 0 default'
  are rows -- 'node01 0 0 - 0 1 kept - -' 'node01 1 1 - 0 0 kept - -'
  are masks srun -N1 -n2 --cpu-bind=none --dist-train=verbose -- '0 0,1 default' '1 0,1 default'
  are rows -- 'node01 0 0 - 0 0-1 kept - -' 'node01 1 1 - 0 0-1 kept - -'
  are masks env SLURM_CPU_BIND=map_cpu:1,0 srun -N1 -n2 --dist-train=bind=core -- '0 1 default' '1 0 default'
  are masks srun -N1 -n2 --cpu-bind=none --dist-train=bind=core -- '0 0 default' '1 1 default'
}

@test "each task gets the CPU, memory and NIC of its GPU on the node that topology= describes" {
  described none
  are masks srun -N1 -n2 --gpus-per-node=2 --dist-train=verbose -- '0 1 prefer:0' '1 0 prefer:0'
  are rows -- 'node01 0 0 0000:1b:00.0 0 1 mlx5_3:1 PIX' 'node01 1 1 0000:43:00.0 0 0 mlx5_0:1 PIX'
  described affinity
  are masks srun -N1 -n2 --gpus-per-node=2 --dist-train=bind=gpu -- '0 1 prefer:0' '1 0 prefer:0'
}

@test "a node whose description is missing or broken runs its tasks unplaced" {
  described none
  local etc
  etc=$("$cluster" folder)/etc
  are masks srun -w node02 -n2 --dist-train=verbose -- '0 0,1 default' '1 0,1 default'
  mkfifo "$etc/machine-node02"
  are masks srun -w node02 -n2 --dist-train -- '0 0,1 default' '1 0,1 default'
  rm "$etc/machine-node02"
  truncate -s 1G "$etc/machine-node02"
  are masks srun -w node02 -n2 --dist-train -- '0 0,1 default' '1 0,1 default'
  head -c 100 "$etc/machine-node01" >"$etc/machine-node02"
  are masks srun -w node02 -n2 --dist-train -- '0 0,1 default' '1 0,1 default'
  rm "$etc/machine-node02"
}

@test "--mem-bind stays" {
  described affinity
  are masks srun -N1 -n2 --gpus-per-node=2 --mem-bind=local --dist-train=bind=gpu -- '0 1 bind:0' '1 0 bind:0'
  described none
  are masks srun -N1 -n2 --gpus-per-node=2 --mem-bind=none --dist-train -- '0 1 default' '1 0 default'
}

@test "the user's variables stay" {
  described none
  reports srun -N1 -n2 --gpus-per-node=2 --dist-train
  [ "$(reported UCX_NET_DEVICES)" = $'mlx5_0:1\nmlx5_3:1' ]
  [ "$(reported OMP_NUM_THREADS)$(reported CUDA_DEVICE_ORDER)" = 1PCI_BUS_ID ]
  reports env UCX_NET_DEVICES=mine OMP_NUM_THREADS=7 CUDA_DEVICE_ORDER=FASTEST_FIRST NCCL_IB_HCA==mlx5_7 \
    srun -N1 -n2 --gpus-per-node=2 --dist-train
  [ "$(reported UCX_NET_DEVICES)$(reported OMP_NUM_THREADS)" = mine7 ]
  [ "$(reported CUDA_DEVICE_ORDER)$(reported NCCL_IB_HCA)" = FASTEST_FIRST=mlx5_7 ]
}

@test "steps that do not ask, and bind=none, are not placed" {
  described none
  are masks srun -N1 -n2 --gpus-per-node=2 -- '0 0,1 default' '1 0,1 default'
  are masks srun -N1 -n2 --gpus-per-node=2 --dist-train=off -- '0 0,1 default' '1 0,1 default'
  are masks srun -N1 -n2 --gpus-per-node=2 --dist-train=bind=none -- '0 0,1 default' '1 0,1 default'
  reports srun -N1 -n2 --gpus-per-node=2 --dist-train=bind=none
  [ "$(reported UCX_NET_DEVICES)" = '(unset)' ]
}

# fence CPUS: slurmd on node01, and what it starts, may use these only. Version 1 or 2 of control groups.
fence() {
  "$cluster" exec --node node01 -- sh -ec '
    mkdir -p /tmp/cpuset
    mount -t cgroup -o cpuset cpuset /tmp/cpuset 2>/dev/null || {
      mount -t cgroup2 cgroup2 /tmp/cpuset
      echo +cpuset >/tmp/cpuset/cgroup.subtree_control
    }
    mkdir "/tmp/cpuset/$0"
    echo "$1" >"/tmp/cpuset/$0/cpuset.cpus"
    echo 0 >"/tmp/cpuset/$0/cpuset.mems"
    pgrep -x slurmd >"/tmp/cpuset/$0/cgroup.procs"' "dist-train-$DIST_TRAIN_CLUSTER" "$1"
}
unfence() {
  "$cluster" exec --node node01 -- sh -c '
    pgrep -x slurmd >/tmp/cpuset/cgroup.procs
    rmdir "/tmp/cpuset/$0" && umount /tmp/cpuset' "dist-train-$DIST_TRAIN_CLUSTER"
}

@test "a task never leaves the cpuset of its control group" {
  described none
  fence 1 || skip "no control group of CPUs can be made here"
  are masks srun -N1 -n2 --gpus-per-node=2 --dist-train=verbose -- '0 1 prefer:0' '1 1 prefer:0'
  are rows -- 'node01 0 0 0000:1b:00.0 0 1 mlx5_3:1 PIX' 'node01 1 1 0000:43:00.0 0 1 mlx5_0:1 PIX'
  undescribed
  are masks srun -N1 -n2 --dist-train=bind=numa -- '0 1 default' '1 1 default'
  all_idle || eventually 10 all_idle
  eventually 10 unfence
}

# A GPU that the machine does not have tells whether the plugin has looked into the cache.
@test "the node's cache is used until the next boot, and while only root could have written it" {
  on none
  local cache=/run/dist-train/machine.xml
  "$cluster" exec --node node01 -- dist-train topo --cache
  "$cluster" exec --node node01 -- sed -i '0,/bridge_type="0-1"/{/bridge_type="0-1"/a\
<object type="PCIDev" gp_index="99999" pci_busid="0000:00:1b.0" pci_type="0302 [10de:2330] [0000:0000] 00" pci_link_speed="0.000000"/>
}' "$cache"
  "$cluster" exec --node node01 -- grep -q 10de:2330 "$cache" || skip "no PCI here"
  seen() {
    masks srun -w node01 -n1 --gpus-per-node=1 --dist-train=verbose >/dev/null
    [ "$(rows | cut -d' ' -f4)" = "$1" ]
  }
  seen 0000:00:1b.0
  "$cluster" exec --node node01 -- chmod g+w "$cache"
  seen 0
  "$cluster" exec --node node01 -- sh -c 'chmod g-w "$0" && chown trainee "$0"' "$cache"
  seen 0
  "$cluster" exec --node node01 -- sh -c 'chown root "$0" && sed -i "/DistTrainBoot/s/[0-9]/0/g" "$0"' "$cache"
  seen 0
  "$cluster" exec --node node01 -- sh -c 'dist-train topo --cache && ! grep -q 10de:2330 "$0" && rm "$0"' "$cache"
}
