# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# shellcheck disable=SC2034 # for the files that load this
# Shared by the .bats files: clusters that live as long as the file, and commands in them.
bats_require_minimum_version 1.5.0
cluster=$BATS_TEST_DIRNAME/../cluster/cluster
report=$BATS_TEST_DIRNAME/report.py
all_reduce=$BATS_TEST_DIRNAME/all_reduce.py
python=$DIST_TRAIN_BUILD/venv/bin/python

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

# Machines of another release of Slurm have another Debian's files, and no Open MPI among them.
need_mpirun() { [ "${DIST_TRAIN_SLURM:-22.05}" = 22.05 ] || skip "no Open MPI beside Slurm $DIST_TRAIN_SLURM"; }

torch_limit=180 # its import alone takes half a minute for some ranks on a busy machine

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

# reports COMMAND...: runs it with the program of its tasks, which report what they see into the
# user's folder `reports`. check [NODE=RANKS]... compares that with what has to be.
reports() {
  user rm -rf reports
  user "$@" "$python" "$report" reports
}
check() { check_in reports "$@"; }
check_in() { "$python" "$BATS_TEST_DIRNAME/check_step.py" "$("$cluster" home)/$1" "${@:2}"; }

# What the tasks of the last `reports` have in a variable, each value once.
reported() { "$python" -c '
import json, pathlib, sys
tasks = [json.loads(path.read_text())["env"] for path in pathlib.Path(sys.argv[1]).glob("*.json")]
print("\n".join(sorted({task.get(sys.argv[2], "(unset)") for task in tasks})))
' "$("$cluster" home)/reports" "$1"; }

# Names that no process may see which did not ask.
ours='^(RANK|WORLD_SIZE|LOCAL_RANK|LOCAL_WORLD_SIZE|NODE_RANK|GROUP_.*|ROLE_.*|MASTER_.*|DIST_TRAIN_.*|GLOO_.*|TP_.*|JAX_.*|OMP_NUM_THREADS)='
