#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# dist-train convert: its scripts as jobs of a real cluster.
# shellcheck disable=SC2016 # for other shells than this one
load helper

setup_file() { start_cluster convert --nodes 3 --gpus 2; }

teardown_file() { stop_clusters; }

# submit MANIFEST [ARGUMENT OF convert]...: the manifest, converted and run as a job; its output in $output.
submit() {
  local manifest
  manifest=$("$cluster" home)/$BATS_TEST_NUMBER.yaml
  printf '%s\n' "$1" >"$manifest"
  chmod a+r "$manifest"
  user sh -c 'dist-train convert "$@" >job.sbatch' sh "$manifest" "${@:2}"
  user cat job.sbatch
  limit=$torch_limit run -0 user sh -c 'sbatch --wait --output=job.out job.sbatch || { cat job.out; exit 1; }'
  run -0 user cat job.out
  echo "$output"
}

# pytorch_job CONTAINER'S FIELDS [SPEC'S FIELDS]: a Master and two Workers.
pytorch_job() {
  local deadline='runPolicy: {activeDeadlineSeconds: 600}'
  echo "apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: sum, namespace: team}
spec:
  pytorchReplicaSpecs:
    Master: {template: {spec: {containers: [&trainer {name: pytorch, $1}]}}}
    Worker: {replicas: 2, template: {spec: {containers: [*trainer]}}}
  ${2:-$deadline}"
}

@test "a PyTorchJob's program: one task a pod, which meet" {
  submit "$(pytorch_job "command: [python, $all_reduce], resources: {limits: {cpu: 2, memory: 64Mi, nvidia.com/gpu: 1}}")"
  [[ $output == *"sum 3 of 3 ranks"* ]]
}

@test "a pod's CPUs are its task's" {
  submit "$(pytorch_job "command: [nproc], resources: {limits: {cpu: 2}}")"
  [ "$output" = $'2\n2\n2' ]
}

@test "torchrun in a PyTorchJob: each of its processes is a task" {
  submit "$(pytorch_job "command: [torchrun, --nnodes=3, --rdzv_backend=c10d, $all_reduce]" 'nprocPerNode: "2"')"
  [[ $output == *"sum 15 of 6 ranks"* ]]
}

@test "a TrainJob's words and variables arrive as they are" {
  submit 'apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata: {name: words}
spec:
  runtimeRef: {name: torch-distributed}
  trainer:
    image: docker.io/library/python
    numNodes: 1
    command: [python, -c, "import os, sys; print(sys.argv[1:], [os.environ[name] for name in (\"A\", \"no.name\", \"RANK\")])"]
    args: ["it'\''s", "$$(touch hacked)", "`touch hacked`", "two\nlines", "DOS\r\n", "#SBATCH -N9", "", ":", "--uid=0", "$(A)", "é"]
    env: [{name: A, value: "x; touch hacked"}, {name: no.name, value: "*"}]' --no-container
  [[ $output == *"[\"it's\", '\$(touch hacked)', '\`touch hacked\`', 'two\\nlines', 'DOS\\r\\n', '#SBATCH -N9', '', ':', '--uid=0', 'x; touch hacked', 'é'] ['x; touch hacked', '*', '0']"* ]]
  run ! user test -e hacked
}

@test "what a task alone knows is put in there" {
  submit "$(pytorch_job "command: [sh, -c, 'echo pod \$\$0 at \$\$1', '\$(RANK)', '\$(MASTER_ADDR)']")"
  [ "$(sort <<<"$output" | cut -d' ' -f1-3)" = $'pod 0 at\npod 1 at\npod 2 at' ]
  [ "$(cut -d' ' -f4 <<<"$output" | sort -u)" = 10.77.0.1 ]
}

@test "a job without its secret ends before it starts, and a suspended one is held" {
  pytorch_job "command: ['true'], env: [{name: T, valueFrom: {secretKeyRef: {name: s, key: k}}}]" \
    'runPolicy: {suspend: true}' | user sh -c 'cat >secret.yaml && dist-train convert secret.yaml >secret.sbatch'
  run -0 user sbatch --parsable --output=secret.out secret.sbatch
  local job=$output
  [ "$(root squeue -h -j "$job" -o %r)" = JobHeldUser ]
  user scontrol release "$job"
  job_ended() { [ -z "$(root squeue -h -j "$job")" ]; }
  eventually 60 job_ended
  run -0 user cat secret.out
  [[ $output == "T is not set: export what secret 's', key 'k' held before sbatch" ]]
}
