#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# The throwaway cluster itself: what it gives, and that nothing of it stays behind.
load helper

setup() {
  export CLUSTER_OWNER=$BATS_TEST_NUMBER-$$
  on throwaway
  links=$(ip -o link)
  folder=$("$cluster" folder)
}

teardown() {
  "$cluster" down
  rm -rf "${closed:-}"
}

# Processes that belong to the cluster carry its folder in command line or environment.
processes() { grep -lsF -- "$folder" /proc/[0-9]*/{cmdline,environ} || true; }

network_of() { "$cluster" exec ${1:+--node "$1"} -- readlink /proc/self/ns/net; }

# Sets `networks` to those of a cluster of two nodes and keeps them open, else the kernel would give their
# numbers to clusters that start meanwhile.
hold_networks() {
  networks="$(network_of) $(network_of node01) $(network_of node02)"
  local network process fd
  for network in $networks; do
    for process in /proc/[0-9]*; do
      [ "$(readlink "$process/ns/net")" = "$network" ] || continue
      exec {fd}<"$process/ns/net"
      [ "$(readlink "/proc/self/fd/$fd")" = "$network" ]
      continue 2
    done
    false # no process is in it
  done
}

# nothing_left [NETWORK]...: no files, interfaces, mounts and processes.
nothing_left() {
  [ ! -e "$folder" ]
  [ -z "$(processes)" ]
  [ "$(ip -o link)" = "$links" ]
  run -1 grep -F -- "$folder" /proc/self/mountinfo
  local network
  for network in "$@"; do
    run -1 grep -xF -- "$network" <<<"$(readlink /proc/[0-9]*/ns/net)"
  done
}

@test "nodes have their own name, address, network and files; users' exit codes come back" {
  "$cluster" up --nodes 2 --gpus 2 --owner $$ --conf MaxJobCount=77
  [ "$(network_of)" != "$(network_of node01)" ]
  [ "$(network_of node01)" != "$(network_of node02)" ]
  [ "$(network_of)" != "$(readlink /proc/self/ns/net)" ]
  run -0 user srun -N2 --label hostname
  [ "$(sort <<<"$output")" = "$(printf '0: node01\n1: node02')" ]
  run -0 user srun -w node02 python3 -c "import socket; print(socket.getnameinfo(('::ffff:10.77.0.1', 1), 0)[0])"
  [ "$output" = node01 ]
  "$cluster" exec --node node01 -- touch /etc/of-node01
  [ ! -e /etc/of-node01 ]
  run -1 "$cluster" exec --node node02 -- test -e /etc/of-node01
  user srun -N2 -n2 touch /tmp/mine
  run -0 user srun -N2 -n2 sh -c 'ls /tmp/mine && id -un'
  [ "$(grep -c trainee <<<"$output")" = 2 ]
  [ ! -e /tmp/mine ]
  run -0 user srun --gpus-per-node=2 printenv CUDA_VISIBLE_DEVICES SLURM_STEP_RESV_PORTS
  [ "${lines[0]}" = 0,1 ]
  [[ ${lines[1]} == 12* ]]
  run -7 user sh -c 'exit 7'
  run -0 root scontrol show config
  [[ $output =~ MaxJobCount\ +=\ 77 ]]
}

@test "a build tree below a folder that is closed to users is open inside" {
  closed=$(mktemp -d /var/tmp/closed.XXXXXX) # mode 700
  mkdir -p "$closed/build/bin"
  printf '#!/bin/sh\necho hello from "$(hostname)"\n' >"$closed/build/bin/hello"
  chmod 755 "$closed/build/bin/hello"
  [ ! -e "$DIST_TRAIN_BUILD/slurm" ] || ln -s "$DIST_TRAIN_BUILD/slurm" "$closed/build/slurm"
  DIST_TRAIN_BUILD=$closed/build "$cluster" up --nodes 1 --owner $$
  DIST_TRAIN_BUILD=$closed/build run -0 user srun hello
  [ "$output" = "hello from node01" ]
}

@test "two clusters, one after the other, leave nothing behind" {
  for ports in "" --no-reserved-ports; do
    # shellcheck disable=SC2086 # none or one word
    "$cluster" up --nodes 2 --owner $$ $ports
    hold_networks
    [ -n "$(processes)" ]
    run user srun -N2 printenv SLURM_STEP_RESV_PORTS
    [ "$status" -eq $((${ports:+1} + 0)) ]
    "$cluster" down
    # shellcheck disable=SC2086 # one word each
    nothing_left $networks
  done
}

@test "a crashed cluster with a running job leaves nothing behind" {
  "$cluster" up --nodes 2 --owner $$
  hold_networks
  user sbatch -N2 --wrap 'touch started; srun sleep 1000'
  eventually 20 user test -e started
  root pkill -KILL 'slurm(ctl)?d'
  "$cluster" down
  # shellcheck disable=SC2086 # one word each
  nothing_left $networks
}

@test "a cluster whose first process was killed is replaced by the next of that name" {
  "$cluster" up --nodes 1 --owner $$
  kill -KILL "$(cat "$folder/pid")"
  [ -e "$folder" ]
  run ! "$cluster" exec -- true
  "$cluster" up --nodes 1 --owner $$
  user srun true
  "$cluster" down
  nothing_left
}

@test "a cluster whose owner is gone ends when another one starts" {
  sleep 1000 &
  "$cluster" up --nodes 1 --owner $!
  kill $!
  wait $! || true
  orphan=$folder
  on other
  "$cluster" up --nodes 1 --owner $$
  "$cluster" down
  folder=$orphan
  nothing_left
}

@test "a cluster that cannot start says why and leaves nothing behind" {
  run ! "$cluster" up --nodes 1 --owner $$ --conf SelectType=select/unknown
  [[ $output == *select/unknown* ]]
  [[ $output == *"did not become idle"* ]]
  nothing_left
  run ! "$cluster" up --nodes none
  [[ $output == *"--nodes 'none': a number from 1 to 99"* ]]
}
