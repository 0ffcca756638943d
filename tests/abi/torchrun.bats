#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# Programs of libstep under a real torchrun with two agents, as on two nodes. TORCHRUN is its path;
# PYTHON3, PYTHONPATH and DIST_TRAIN_LIBSTEP are those of the program, which needs no torch.
bats_require_minimum_version 1.5.0

setup() {
  port=$("$PYTHON3" -c 'import socket; s = socket.socket(); s.bind(("", 0)); print(s.getsockname()[1])')
}

# agents ARGUMENT...: two, AGENT in an argument being its number; what they say in files 0 and 1.
agents() {
  local agent pids=()
  for agent in 0 1; do
    timeout 150 "$TORCHRUN" --no-python "${@//AGENT/$agent}" "$PYTHON3" "$BATS_TEST_DIRNAME/where.py" \
      >"$BATS_TEST_TMPDIR/$agent" 2>&1 3>&- &
    pids+=($!)
  done
  for agent in 0 1; do wait "${pids[agent]}" || { cat "$BATS_TEST_TMPDIR/$agent"; return 1; }; done
}

is_world_of_four() {
  diff - <(grep -h '^rank ' "$BATS_TEST_TMPDIR"/[01]) <<END
rank 0 of 4, 0 of 2 on node 0 of 2: torchrun (run '$1')
rank 1 of 4, 1 of 2 on node 0 of 2: torchrun (run '$1')
rank 2 of 4, 0 of 2 on node 1 of 2: torchrun (run '$1')
rank 3 of 4, 1 of 2 on node 1 of 2: torchrun (run '$1')
END
}

@test "torchrun with its static rendezvous" {
  agents --nnodes=2 --nproc_per_node=2 --node_rank=AGENT --master_addr=127.0.0.1 --master_port="$port"
  is_world_of_four none
}

@test "torchrun with the rendezvous c10d, whose store is the agents'" {
  agents --nnodes=2 --nproc_per_node=2 --rdzv_backend=c10d --rdzv_id=twins --rdzv_endpoint=127.0.0.1:"$port" \
    --local_addr=127.0.0.1
  is_world_of_four twins
}

@test "torchrun in pods: the pod's RANK and WORLD_SIZE are not the worker's" {
  export PET_NNODES=2 PET_NPROC_PER_NODE=2 PET_MASTER_ADDR=127.0.0.1 PET_MASTER_PORT="$port" RANK=1 WORLD_SIZE=4
  agents --node_rank=AGENT
  is_world_of_four none
}
