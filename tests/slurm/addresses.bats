#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# Where rank 0 is: nodes with several networks, and names that mislead, differ or are not known.
# Slurm itself goes by NodeAddr (10.77.0.0/24, eth0), so that names may say anything.
# shellcheck disable=SC2154 # what helper and run set
load helper

setup_file() {
  local row='CPUs=8 Boards=1 SocketsPerBoard=2 CoresPerSocket=4 ThreadsPerCore=1 RealMemory=2000 State=UNKNOWN'
  start_cluster ipv6 --ipv6 --nodes 2 --gpus 0
  for kind in reserved broker; do
    # shellcheck disable=SC2046 # one word or none
    start_cluster $kind --nodes 3 --gpus 0 $([ $kind = reserved ] || echo --no-reserved-ports) \
      --conf "NodeName=node[01-03] NodeAddr=10.77.0.[1-3] $row"
    second_networks
  done
}
teardown_file() { stop_clusters; }

# Each node gets eth1 on a network that the nodes share, and eth2 whose cable leads nowhere.
second_networks() {
  root ip link add fast type bridge
  root ip link set fast up
  local i pid
  for i in 1 2 3; do
    pid=$(cat "$("$cluster" folder)/node0$i/pid")
    root ip link add "fast$i" type veth peer name eth1 netns "$pid"
    root ip link set "fast$i" master fast up
    root ip link add "dead$i" type veth peer name eth2 netns "$pid"
    root ip link set "dead$i" up
    at "node0$i" sh -c "
      ip addr add 10.88.0.$i/24 dev eth1; ip addr add fd88::$i/64 dev eth1 nodad; ip link set eth1 up
      ip addr add 10.99.0.$i/24 dev eth2; ip addr add fd99::$i/64 dev eth2 nodad; ip link set eth2 up"
  done
}

at() { "$cluster" exec --node "$1" -- "${@:2}"; }

# names NODE, with the text of its /etc/hosts; every test begins without names.
names() {
  local file
  file=$("$cluster" folder)/$1/hosts
  { echo 127.0.0.1 localhost && cat; } >"$file"
  at "$1" mount --bind "$file" /etc/hosts
}
# The same on all nodes.
all_names() {
  local text node
  text=$(cat)
  for node in node01 node02 node03; do names $node <<<"$text"; done
}

both() {
  local kind
  for kind in reserved broker; do
    on $kind
    "$@"
  done
}

# masters ADDRESS INTERFACE [OPTION]: a step of 2+1 tasks on node01 and node02 meets there.
masters() {
  reports srun -N2 -n3 "--dist-train${3:+=$3}"
  run -0 check node01=0,1 node02=2
  [[ $output == "master $1 "* ]]
  [ "$(reported GLOO_SOCKET_IFNAME)" = "$2" ]
}

# A real one, of the same shape.
all_reduces() {
  limit=$torch_limit run -0 user env OMP_NUM_THREADS=1 srun -N2 -n3 "--dist-train${1:+=$1}" python "$all_reduce"
  [[ $output == *"sum 3 of 3 ranks"* ]]
}

unreachable_network() {
  all_names <<<"10.99.0.1 node01
10.99.0.2 node02
10.99.0.3 node03"
  masters 10.77.0.1 eth0
}
@test "names that resolve to a network without a way between the nodes" {
  both unreachable_network
  on reserved
  all_reduces
}

own_name_unreachable() {
  names node01 <<<"10.99.0.1 node01
10.77.0.2 node02"
  names node02 <<<"10.77.0.1 node01
10.77.0.2 node02"
  masters 10.77.0.1 eth0
}
@test "rank 0's own name resolves to an interface that peers cannot reach" { both own_name_unreachable; }

fast_network() {
  all_names <<<"10.88.0.1 node01
10.88.0.2 node02
10.88.0.3 node03"
  masters 10.88.0.1 eth1
}
@test "names that resolve to a network beside Slurm's, where peers answer" { both fast_network; }

debian() {
  names node01 <<<"127.0.1.1 node01
10.77.0.2 node02"
  names node02 <<<"10.77.0.1 node01
127.0.1.1 node02"
  masters 10.77.0.1 eth0
}
@test "every node's own name resolves to 127.0.1.1" {
  both debian
  on broker
  all_reduces
}

no_names() {
  all_names </dev/null
  masters 10.77.0.1 eth0
}
@test "names that nobody knows" { both no_names; }

@test "names that nobody knows, and all machines call themselves the same" {
  on reserved
  all_names </dev/null
  for node in node01 node02; do at $node hostname box; done
  all_reduces
  for node in node01 node02; do at $node hostname $node; done
}

one_name_missing() {
  all_names <<<"10.77.0.1 node01
10.77.0.2 node02"
  names node02 <<<"10.77.0.2 node02"
  masters 10.77.0.1 eth0
}
@test "a node that does not know rank 0's name" { both one_name_missing; }

@test "a name with an IPv6 address that does not work beside its IPv4 one" {
  on reserved
  all_names <<<"fd99::1 node01
10.77.0.1 node01
fd99::2 node02
10.77.0.2 node02"
  masters 10.77.0.1 eth0
}

chosen_interface() {
  all_names <<<"10.77.0.1 node01
10.77.0.2 node02"
  for choice in eth1 10.88.0.0/24 ^eth0+^eth2 wlan+eth1; do masters 10.88.0.1 eth1 iface=$choice; done
  masters fd88::1 eth1 iface=fd88::/16
}
@test "iface= takes a name, a subnet, exclusions and a list" { both chosen_interface; }

@test "iface= with a subnet where interfaces have other names on other nodes" {
  on reserved
  all_names </dev/null
  at node02 sh -c 'ip link set eth1 down; ip link set eth1 name ib7; ip link set ib7 up; ip addr add fd88::2/64 dev ib7 nodad'
  reports srun -N2 -n2 --dist-train=iface=10.88.0.0/24
  check node01=0 node02=1
  [ "$(reported GLOO_SOCKET_IFNAME)" = "$(printf 'eth1\nib7')" ]
  at node02 sh -c 'ip link set ib7 down; ip link set ib7 name eth1; ip link set eth1 up; ip addr add fd88::2/64 dev eth1 nodad'
}

@test "iface= that fits no interface: one error with those that are there, and the step ends" {
  on broker
  run --separate-stderr user srun -N2 -n3 --dist-train=iface=wlan true
  [ "$status" -ne 0 ]
  [ "$status" -lt 124 ]
  [[ $stderr == *"no interface of node01 fits iface=wlan"*"eth1 10.88.0.1"* ]]
  [ "$(grep -c 'fits iface=wlan' <<<"$stderr")" = 1 ]
}

@test "an IPv6 address in a cluster that has both: a real all-reduce" {
  on reserved
  all_names </dev/null
  all_reduces iface=fd88::/16
}

@test "an IPv6-only cluster: literal MASTER_ADDR, brackets in JAX's address, a real all-reduce" {
  on ipv6
  reports srun -N2 -n3 --dist-train
  run -0 check node01=0,1 node02=2
  [[ $output == "master fd77::1 "* ]]
  [[ $(reported JAX_COORDINATOR_ADDRESS) == "[fd77::1]:"* ]]
  all_reduces
}
