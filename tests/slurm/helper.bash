# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# shellcheck disable=SC2034 # report is for the files that load this
# Shared by the .bats files: clusters that live as long as the file, and commands in them.
bats_require_minimum_version 1.5.0
cluster=$BATS_TEST_DIRNAME/../cluster/cluster
report=$BATS_TEST_DIRNAME/report.py

# In setup_file: start_cluster NAME [ARGUMENT OF `cluster up`]...
start_cluster() {
  export CLUSTER_OWNER=$$ CLUSTERS="${CLUSTERS:-} $1"
  on "$1"
  "$cluster" up --owner $$ "${@:2}"
}

# The cluster that the commands below mean: the last one started, or `on NAME`.
on() { export DIST_TRAIN_CLUSTER=$1-$CLUSTER_OWNER; }

# In teardown_file.
stop_clusters() {
  local name
  for name in $CLUSTERS; do
    on "$name"
    "$cluster" down
  done
}

# What a user, or root, types on the submit host. Nothing may hang: $limit seconds are the most.
user() { "$cluster" exec --user "$("$cluster" user)" -- timeout --kill-after=5 "${limit:-60}" "$@"; }
root() { "$cluster" exec -- timeout --kill-after=5 "${limit:-60}" "$@"; }

# eventually SECONDS COMMAND...: repeats it until it succeeds.
eventually() {
  local deadline=$((SECONDS + $1))
  shift
  until "$@"; do
    [ $SECONDS -lt $deadline ] || { echo "not within the time: $*" >&2; return 1; }
    sleep 0.1
  done
}

# Every node free again; a drained, down or still completing one is not.
all_idle() { [ "$(root sinfo -h -o %T)" = idle ]; }

# Job numbers are given out in order, so two calls differ by one if nothing was allocated between.
next_job() { user sbatch --parsable --output=/dev/null --wrap true; }
