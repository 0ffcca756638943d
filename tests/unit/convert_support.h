// SPDX-License-Identifier: BSD-3-Clause
// Manifests for the tests of dist-train convert, and what becomes of them.
#pragma once

#include "libstep/tools/convert/script.h"

#include <string>

namespace dist_train {

// The script, or "error: " with the message.
inline std::string converted(const std::string& yaml, const std::string& job = "",
                             bool container = true) {
  const auto documents = read_yaml(yaml, "f");
  if (!documents)
    return "error: " + documents.error().message;
  const auto manifest = read_manifest(*documents, job, "f");
  if (!manifest)
    return "error: " + manifest.error().message;
  const auto launch = plan_launch(*manifest);
  return launch ? job_script(*manifest, *launch, "f", container)
                : "error: " + launch.error().message;
}

// A PyTorchJob of two pods, with the fields of its container and of its spec in flow style.
inline std::string pytorch_job(const std::string& container, const std::string& spec = "",
                               const std::string& replica = "") {
  return "apiVersion: kubeflow.org/v1\nkind: PyTorchJob\nmetadata: {name: job}\nspec:\n"
         "  pytorchReplicaSpecs:\n"
         "    Master: &replica {replicas: 1, template: {spec: {containers: [{name: pytorch, " +
         container + "}]}}" + replica +
         "}\n"
         "    Worker: *replica\n" +
         (spec.empty() ? "" : "  " + spec + "\n");
}

inline std::string train_job(const std::string& trainer, const std::string& spec = "") {
  return "apiVersion: trainer.kubeflow.org/v1alpha1\nkind: TrainJob\nmetadata: {name: job}\nspec:\n"
         "  runtimeRef: {name: torch-distributed}\n  trainer: {" +
         trainer + "}\n" + (spec.empty() ? "" : "  " + spec + "\n");
}

} // namespace dist_train
