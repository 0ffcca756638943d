// SPDX-License-Identifier: BSD-3-Clause
// Kubeflow manifests as job scripts: what the fields become, and what is refused.
#include "tests/unit/convert_support.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dist_train {
namespace {

using testing::HasSubstr;
using testing::Not;

std::string many_times(const std::string& text, int times) {
  std::string all;
  for (int i = 0; i < times; ++i)
    all += text;
  return all;
}

TEST(Convert, APyTorchJobIsAScript) {
  const auto script = converted(R"(apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata:
  name: bert
  namespace: team
spec:
  nprocPerNode: "4"
  runPolicy: {activeDeadlineSeconds: 3601, cleanPodPolicy: None}
  pytorchReplicaSpecs:
    Master: &replica
      replicas: 1
      restartPolicy: OnFailure
      template:
        spec:
          containers:
            - name: pytorch
              image: nvcr.io/nvidia/pytorch:24.07-py3
              command: [torchrun, --max_restarts=3, train.py]
              args: [--lr, "1e-4"]
              env: [{name: NCCL_DEBUG, value: INFO}]
              resources: {limits: {nvidia.com/gpu: 4, cpu: 30, memory: 200Gi}}
              volumeMounts: [{name: data, mountPath: /data, readOnly: true}]
          volumes: [{name: data, hostPath: {path: /lustre/data}}]
    Worker:
      <<: *replica
      replicas: 3
)");
  EXPECT_EQ(script, R"(#!/bin/bash
# From f by dist-train convert
#SBATCH --job-name=bert
#SBATCH --nodes=4 --ntasks-per-node=4
#SBATCH --gpus-per-node=4
#SBATCH --cpus-per-task=7
#SBATCH --mem=204800M
#SBATCH --time=61 # minutes
# torchrun gives way to srun: 4 tasks a node, with the variables that it would set
# No counterpart: torchrun --max_restarts=3
# No counterpart: metadata.namespace (line 5): team; see #SBATCH --account
# No counterpart: spec.runPolicy.cleanPodPolicy (line 8): None
# No counterpart: spec.pytorchReplicaSpecs.*.restartPolicy (line 12): OnFailure; Slurm starts a job again after node failures and preemption only (#SBATCH --requeue)
# --container-...: pyxis has to be there; dist-train convert --no-container makes a script without
srun --dist-train \
  --cpus-per-task=7 \
  '--container-image=nvcr.io#nvidia/pytorch:24.07-py3' \
  --container-mounts=/lustre/data:/data:ro \
  env NCCL_DEBUG=INFO \
  python -u train.py --lr 1e-4
)");
}

TEST(Convert, ATrainJobIsAScript) {
  const auto script = converted(
      train_job("numNodes: 2, numProcPerNode: 3, image: pytorch/pytorch, command: [torchrun, -m, "
                "pkg.train], resourcesPerNode: {requests: {cpu: 500m, memory: 1G}}",
                "suspend: true"));
  EXPECT_EQ(script, R"(#!/bin/bash
# From f by dist-train convert
#SBATCH --job-name=job
#SBATCH --nodes=2 --ntasks-per-node=3
#SBATCH --cpus-per-task=1
#SBATCH --mem=954M
#SBATCH --hold # it was suspended: scontrol release JOB
# torchrun gives way to srun: 3 tasks a node, with the variables that it would set
# What runtime 'torch-distributed' adds (volumes, variables, defaults) is not in this file
# --container-...: pyxis has to be there; dist-train convert --no-container makes a script without
srun --dist-train \
  --cpus-per-task=1 \
  --container-image=pytorch/pytorch \
  python -u -m pkg.train
)");
}

TEST(Convert, EachProcessBecomesATask) {
  const struct {
    const char* command;
    const char* spec;
    const char* tasks;
    const char* srun;
  } cases[] = {
      {"[python, train.py]", "", "1", "srun --dist-train \\\n  python train.py\n"},
      {"[torchrun, --nproc_per_node=2, train.py]", "nprocPerNode: 8", "2", "python -u train.py"},
      {"[torchrun, --nproc-per-node, 2, train.py]", "", "1", "wants texts"},
      {"[torchrun, --nproc-per-node, '2', --, -x.py]", "", "2", "python -u -x.py"},
      {"[torchrun, --nproc-per-node=$(PET_NPROC_PER_NODE), t.py]", "nprocPerNode: 3", "3",
       "python -u t.py"},
      {"[torchrun, -r, '3', --standalone, t.py]", "nprocPerNode: 3", "3", "torchrun -r=3\n"},
      {"[torchrun, --nproc-per-node=$(RANK), t.py]", "nprocPerNode: 3", "1", "=torchrun,nproc=3"},
      {"[/opt/bin/torchrun, --no-python, ./run, -v]", "nprocPerNode: 8", "8", "  ./run -v\n"},
      {"[python3.11, -u, -m, torch.distributed.run, --nnodes, '2', --node_rank=$(RANK), -m, p.t]",
       "nprocPerNode: '2'", "2", "  python3.11 -u -m p.t\n"},
      {"[sh, -c, ' torchrun --nproc_per_node=2  train.py --lr=1 ']", "", "2",
       "  python -u train.py --lr=1\n"},
      {"[torchrun, train.py]", "elasticPolicy: {nProcPerNode: 5}", "5", "python -u train.py"},
      // What only the node can tell, what the shell would do more to, what is not known: it stays.
      {"[torchrun, train.py]", "", "1", "srun --dist-train=torchrun \\\n  torchrun train.py\n"},
      {"[bash, -c, 'cd /x && torchrun train.py']", "nprocPerNode: '4'", "1",
       "srun --dist-train=torchrun,nproc=4 \\\n  bash -c 'cd /x && torchrun train.py'\n"},
      {"[torchrun, --new-option=1, train.py]", "nprocPerNode: '4'", "1", "=torchrun,nproc=4"},
      {"[python, -m, torch.distributed.launch, t.py]", "nprocPerNode: '4'", "1",
       "=torchrun,nproc=4"},
      // Others know of their own pod only.
      {"[accelerate, launch, t.py]", "", "1",
       "error: job 'job': the launcher 'accelerate launch' would train on each of the 2 nodes "
       "alone"},
      {"[sh, -c, 'cd x; deepspeed t.py']", "", "1", "the launcher 'deepspeed' would"},
      {"[mpirun, -np, '2', ./run]", "", "1", "the launcher 'mpirun' would"},
  };
  for (const auto& [command, spec, tasks, srun] : cases) {
    const auto script = converted(pytorch_job(std::string("command: ") + command, spec));
    EXPECT_THAT(script, HasSubstr(srun)) << command;
    if (script.starts_with("#!")) {
      EXPECT_THAT(script, HasSubstr(" --ntasks-per-node=" + std::string(tasks) + "\n")) << command;
    }
  }
  EXPECT_THAT(converted(train_job("command: [accelerate, launch, t.py]")),
              HasSubstr("# accelerate launch starts processes of its own"));
  // A shell finds the operator's names for the pods.
  EXPECT_THAT(
      converted(pytorch_job("command: [sh, -c, 'a; torchrun --nnodes=$WORLD_SIZE "
                            "--node_rank=$RANK t.py']")),
      HasSubstr("sh -c 'exec env RANK=\"$NODE_RANK\" \\\n  WORLD_SIZE=2 \\\n  sh -c '\\''a; "
                "torchrun --nnodes=$WORLD_SIZE --node_rank=$RANK t.py'\\'''\n"));
  const auto gpus = converted(pytorch_job(
      "command: [torchrun, t.py], resources: {limits: {amd.com/gpu: '8'}, requests: {cpu: 96}}"));
  EXPECT_THAT(gpus, HasSubstr("--ntasks-per-node=8\n#SBATCH --gpus-per-node=8\n"
                              "#SBATCH --cpus-per-task=12\n"));
}

TEST(Convert, VariablesAreExpandedAsKubernetesDoes) {
  const auto script = converted(pytorch_job(
      "command: [run, '$(A)/$(B)', '$$(A)', '$(NONE)', '$A $(', '$(WORLD_SIZE)'], env: [{name: A, "
      "value: a b}, {name: B, value: '<$(A)>'}, {name: B, value: '$(LATER)'}, {name: LATER, "
      "value: x}, {name: RANK, value: '7'}, {name: DIST_TRAIN_TOKEN, value: t}]"));
  EXPECT_THAT(script,
              HasSubstr("  env 'A=a b' \\\n  'B=<a b>' \\\n  'B=$(LATER)' \\\n  LATER=x \\\n"
                        "  run 'a b/$(LATER)' '$(A)' '$(NONE)' '$A $(' 2\n"));
  EXPECT_THAT(script, HasSubstr("# Left out: RANK='7', which the step sets\n"));
  EXPECT_THAT(script, HasSubstr("# Left out: DIST_TRAIN_TOKEN='t', which the step sets\n"));
  // What a task alone knows, a shell in the task puts in.
  EXPECT_THAT(
      converted(pytorch_job("command: [run, '--at=$(MASTER_ADDR):1', '$(RANK)', x y]")),
      HasSubstr("\n  sh -c 'exec run --at=\"$MASTER_ADDR\":1 \"$NODE_RANK\" '\\''x y'\\'''\n"));
  // A TrainJob's pods have no RANK.
  EXPECT_THAT(converted(train_job("command: [run, '$(RANK)', '$(PET_NNODES)']")),
              HasSubstr("  run '$(RANK)' 1\n"));
}

TEST(Convert, NothingIsDroppedInSilence) {
  const auto script = converted(pytorch_job(
      "command: [run], imagePullPolicy: Always, image: 'r:5000/i', lifecycle: {preStop: {exec: "
      "{command: [\"a\\n#SBATCH --x\"]}}}, env: [{name: T, valueFrom: {secretKeyRef: {name: s, "
      "key: "
      "k}}}, {name: F, valueFrom: {fieldRef: {fieldPath: metadata.name}}}, {name: O, valueFrom: "
      "{configMapKeyRef: {name: c, key: k, optional: true}}}], volumeMounts: [{name: v, mountPath: "
      "/v}], resources: {limits: {example.com/fpga: 1}}",
      "elasticPolicy: {minReplicas: 1, rdzvBackend: c10d}"));
  for (const char* text :
       {"containers[0].imagePullPolicy (line 6): Always\n",
        "containers[0].lifecycle (line 6): {preStop: {exec: {command: ['a\\x0a#SBATCH --x']}}}\n",
        "containers[0].volumeMounts[0] (line 6): {name: v, mountPath: /v}; see",
        "containers[0].resources.limits.example.com/fpga (line 6): 1\n",
        "spec.elasticPolicy.minReplicas (line 8): 1; a job's number of nodes is fixed\n",
        "spec.elasticPolicy.rdzvBackend (line 8): c10d\n", "'--container-image=r:5000#i'",
        "printenv T >/dev/null || { echo 'T is not set: export what secret '\\''s'\\'', key ",
        "printenv F >/dev/null || { echo 'F is not set: export what the pod'\\''s field ",
        "# Export O before sbatch if the program needs ConfigMap 'c', key 'k'\n"})
    EXPECT_THAT(script, HasSubstr(text));
  const auto bare =
      converted(pytorch_job("command: [run], image: i, workingDir: '/w x'"), "", false);
  EXPECT_THAT(bare, HasSubstr("# Left out: image 'i'\n"));
  EXPECT_THAT(bare, HasSubstr("srun --dist-train \\\n  '--chdir=/w x' \\\n  run\n"));
  EXPECT_THAT(bare, Not(HasSubstr("--container-image")));
}

TEST(Convert, ArgsWithoutCommandAreTheProgram) {
  EXPECT_THAT(
      converted(pytorch_job("image: i, args: [run, b c], env: [{name: A, value: x y}]")),
      HasSubstr("srun --dist-train \\\n  --container-image=i \\\n  --container-entrypoint \\\n"
                "  env 'A=x y' \\\n  run 'b c'\n"));
  EXPECT_THAT(converted(pytorch_job("image: i, args: [torchrun, --nproc-per-node=2, t.py]")),
              HasSubstr("--container-entrypoint \\\n  python -u t.py\n"));
  EXPECT_EQ(converted(pytorch_job("image: i, args: [--epochs, '3']")),
            "error: job 'job': args without command, '--epochs' and on, are for the image's own "
            "command, which is not in this file");
}

// srun would take it for an option of its own or for the end of a component, env(1) for a variable.
TEST(Convert, NoWordOfTheManifestIsSruns) {
  EXPECT_EQ(converted(pytorch_job("command: [--epilog=/x, run]")),
            "error: job 'job': the command begins with '--epilog=/x', which is no program");
  EXPECT_EQ(converted(pytorch_job("command: [torchrun, --nproc-per-node=2, --no-python, --, -x]")),
            "error: job 'job': the command begins with '-x', which is no program");
  EXPECT_EQ(converted(pytorch_job("command: ['', run]")),
            "error: job 'job': the command begins with '', which is no program");
  EXPECT_THAT(converted(pytorch_job("command: [a=b, run]")), HasSubstr("\n  a=b run\n"));
  EXPECT_EQ(converted(pytorch_job("command: [a=b, run], env: [{name: A, value: x}]")),
            "error: job 'job': the command begins with 'a=b', which env(1) would take for a "
            "variable");
  EXPECT_THAT(converted(pytorch_job("command: [run, ':', --uid=0]")),
              HasSubstr("\n  sh -c 'exec run : --uid=0'\n"));
  EXPECT_THAT(converted(pytorch_job("command: [run, 'a:b']")), HasSubstr("\n  run a:b\n"));
}

TEST(Convert, SecretsAreVariablesOfTheTask) {
  const std::string secret = "valueFrom: {secretKeyRef: {name: s, key: k}}}";
  EXPECT_THAT(
      converted(pytorch_job("command: [run, '--key=$(K)', '$(b.c)'], env: [{name: K, " + secret +
                            ", {name: b.c, " + secret + ", {name: URL, value: 'u:$(K)@h'}]")),
      HasSubstr("sh -c 'exec env URL=u:\"$K\"@h \\\n  run --key=\"$K\" \"$(printenv b.c)\"'\n"));
  const auto script = converted(
      pytorch_job("command: [run], env: [{name: RANK, valueFrom: {fieldRef: {fieldPath: x}}}]"));
  EXPECT_THAT(script,
              HasSubstr("# Left out: RANK from the pod's field 'x', which the step sets\n"));
  EXPECT_THAT(script, Not(HasSubstr("printenv")));
}

TEST(Convert, OtherDocumentsOfTheFile) {
  const std::string volume = "kind: PersistentVolumeClaim\nmetadata: {name: v}\n---\n";
  const auto job = pytorch_job("command: [run]");
  EXPECT_THAT(converted(volume + job),
              HasSubstr("# Not converted: 'PersistentVolumeClaim' 'v' (line 1)\n"));
  auto other = job;
  other.replace(other.find("name: job"), 9, "name: two");
  EXPECT_EQ(converted(job + "---\n" + other),
            "error: f:9:1: a second job, 'two', after 'job' in line 1");
  EXPECT_THAT(converted(job + "---\n" + other, "two"), HasSubstr("--job-name=two"));
  const std::string mpi = "---\nkind: MPIJob\nmetadata: {name: mpi}\n";
  EXPECT_THAT(converted(job + mpi, "job"), HasSubstr("--job-name=job"));
  const auto refused = read_manifest(*read_yaml(job + mpi, "f"), "", "f");
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().hint, HasSubstr("--job NAME chooses another of this file"));
  EXPECT_EQ(converted(job, "three"), "error: f: no job called 'three'");
}

TEST(Convert, WhatCannotBeConvertedIsNamed) {
  const struct {
    std::string yaml;
    const char* error;
  } cases[] = {
      {"", "f: no job"},
      {"- a\n", "f:1:1: not a manifest: a map with apiVersion and kind was expected"},
      {"a: 1\n", "f:1:1: kind is missing: not a manifest"},
      {"kind: MPIJob\n", "f:1:1: MPIJob cannot be converted"},
      {"kind: RayJob\n", "f:1:1: RayJob cannot be converted"},
      {"kind: Secret\n", "f: no job among 'Secret'"},
      {"kind: TrainJob\napiVersion: x/v9\n",
       "f:1:1: apiVersion 'x/v9' of TrainJob is not trainer.kubeflow.org/v1alpha1"},
      {"kind: PyTorchJob\napiVersion: kubeflow.org/v1\n", "f:1:1: metadata.name is missing"},
      {"kind: PyTorchJob\napiVersion: kubeflow.org/v1\nmetadata: {name: 'a b'}\n",
       "f:3:11: metadata.name 'a b' is not a name of Kubernetes (a-z, 0-9, - and .)"},
      {"kind: PyTorchJob\napiVersion: kubeflow.org/v1\nmetadata: {name: a}\n",
       "f:1:1: spec.pytorchReplicaSpecs has neither Master nor Worker"},
      {pytorch_job("command: run"), "f:6:92: command wants a list, not a text ('run')"},
      {pytorch_job("command: [run, 8]"), "f:6:98: command wants texts, not a number ('8')"},
      {pytorch_job("command: [run], env: [{name: A, value: on}]"),
       "f:6:122: value wants a text, not true or false ('on')"},
      {pytorch_job("command: [run], env: [{name: 'A;B', value: x}]"),
       "f:6:105: a variable cannot be called 'A;B'"},
      {pytorch_job("command: [run], resources: {limits: {cpu: much}}"),
       "f:6:125: cpu 'much' is not a quantity such as 4, 500m or 16Gi"},
      {pytorch_job("command: [run], resources: {limits: {nvidia.com/gpu: -1}}"),
       "f:6:136: nvidia.com/gpu '-1' is not a quantity such as 4, 500m or 16Gi"},
      {pytorch_job("image: i, command: [run], volumeMounts: [{name: v, mountPath: '/a$(id)'}]}], "
                   "volumes: [{name: v, hostPath: {path: /b}"),
       "f:6:124: the path '/a$(id)' cannot be mounted"},
      {pytorch_job("image: i"), "job 'job' names no command; the image has one, but not this file"},
      {pytorch_job("args: [a]"),
       "job 'job' names no command; the runtime has one, but not this file"},
      {pytorch_job("command: [run]", "nprocPerNode: many"),
       "f:8:17: nprocPerNode 'many' is not auto, gpu, cpu or a number from 1 to 4096"},
      {pytorch_job("command: [run]", "runPolicy: {activeDeadlineSeconds: 1.5}"),
       "f:8:38: activeDeadlineSeconds '1.5' is not a whole number from 0 to 315360000"},
      {pytorch_job("command: [run]", "pytorchReplicaSpecs: {}"),
       "f:8:3: the key 'pytorchReplicaSpecs' comes twice in one map"},
      {train_job("numNodes: 0, command: [run]"), "f:6:23: numNodes is 0"},
      {train_job("numNodes: 010, command: [run]"), "f:6:23: numNodes '010' is octal to Kubernetes"},
      {train_job("numNodes: -1, command: [run]"),
       "f:6:23: numNodes '-1' is not a whole number from 0 to 65536"},
      {train_job("command: [run], env: [{name: A, value: " + std::string(1000, 'x') +
                 "}, {name: B, value: '" + std::string(600, ' ') +
                 "$(A)$(A)$(A)$(A)$(A)'}, "
                 "{name: C, value: '$(B)$(B)$(B)$(B)$(B)$(B)$(B)$(B)$(B)$(B)'}, "
                 "{name: D, value: '$(C)$(C)$(C)$(C)$(C)$(C)$(C)$(C)$(C)$(C)'}]"),
       "job 'job': more than 100000 bytes in one word of command, args or env: 'D="},
      {train_job("command: [run" + many_times(", $(A)", 15'000) +
                 "], env: [{name: A, value: " + std::string(90'000, 'x') + "}]"),
       "job 'job': more than 1000000 bytes in all words of command, args or env: 'A="},
      {train_job("command: [run" + many_times(", $(A)", 15'000) +
                 "], env: [{name: A, value: " + many_times("$(PET_NODE_RANK)", 10'000) + "}]"),
       "job 'job': more than 1000000 bytes in all words of command, args or env: 'A="},
  };
  for (const auto& [yaml, error] : cases)
    EXPECT_THAT(converted(yaml), testing::StartsWith("error: " + std::string(error))) << yaml;
}

TEST(Convert, MasterAndWorkerHaveToBeAlike) {
  const auto job = [](const char* master, const char* worker) {
    const auto replica = [](const char* container) {
      return std::string("{template: {spec: {containers: [{name: pytorch, ") + container + "}]}}}";
    };
    return converted("apiVersion: kubeflow.org/v1\nkind: PyTorchJob\nmetadata: {name: j}\nspec: "
                     "{pytorchReplicaSpecs: {Master: " +
                     replica(master) + ", Worker: " + replica(worker) + "}}\n");
  };
  EXPECT_THAT(job("command: [a]", "command: [b]"),
              HasSubstr("Master and Worker have different programs"));
  EXPECT_THAT(job("command: [a], image: i", "command: [a], image: j"),
              HasSubstr("different images"));
  const auto larger = job("command: [a], resources: {limits: {cpu: 4}}",
                          "command: [a], resources: {limits: {cpu: 2, nvidia.com/gpu: 1}}");
  EXPECT_THAT(larger, HasSubstr("#SBATCH --gpus-per-node=1\n#SBATCH --cpus-per-task=4\n"));
  EXPECT_THAT(larger, HasSubstr("# Master and Worker ask for different resources"));
}

} // namespace
} // namespace dist_train
