// SPDX-License-Identifier: BSD-3-Clause
#include "libstep/tools/convert/manifest.h"

#include "libstep/core/text.h"

#include <algorithm>

namespace dist_train {
namespace {

constexpr const char* kSupported =
    "supported: PyTorchJob (kubeflow.org/v1) and TrainJob (trainer.kubeflow.org/v1alpha1)";
constexpr std::uint32_t kMaxPods = 65536;
constexpr std::uint32_t kMaxProcesses = 4096;

std::string text_of(const YamlNode& document, std::string_view name) {
  const auto* field = Fields::find(&document, name);
  return field ? field->text : std::string();
}

std::string name_of(const YamlNode& document) {
  const auto* metadata = Fields::find(&document, "metadata");
  return metadata ? text_of(*metadata, "name") : std::string();
}

// Other kinds that start training processes; each has its own way of doing so.
bool other_job(const std::string& kind) {
  static constexpr std::string_view kOthers[] = {"MPIJob",    "TFJob",  "JAXJob",     "XGBoostJob",
                                                 "PaddleJob", "MXJob",  "RayJob",     "RayCluster",
                                                 "Job",       "JobSet", "Experiment", "Workflow"};
  return std::find(std::begin(kOthers), std::end(kOthers), kind) != std::end(kOthers);
}

// A DNS name, as Kubernetes wants it: nothing that a #SBATCH line would take for more than a word.
bool job_name(const std::string& name) {
  return !name.empty() && name.size() <= 253 && name[0] != '-' && name[0] != '.' &&
         name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-.") == name.npos;
}

// What is near to a field without a counterpart.
std::string hint(const std::string& path) {
  static constexpr std::string_view kRestart =
      "Slurm starts a job again after node failures and preemption only (#SBATCH --requeue)";
  static constexpr std::string_view kSize = "a job's number of nodes is fixed";
  static constexpr std::string_view kFolder =
      "see --container-mounts, SOURCE:TARGET, for folders of the cluster";
  static constexpr std::string_view kBefore = "see what has to run before srun in this script";
  static constexpr std::pair<std::string_view, std::string_view> kHints[] = {
      {"backoffLimit", kRestart},
      {"maxRestarts", kRestart},
      {"restartPolicy", kRestart},
      {"minReplicas", kSize},
      {"maxReplicas", kSize},
      {"queue", "see #SBATCH --partition"},
      {"priorityClass", "see #SBATCH --qos"},
      {"priorityClassName", "see #SBATCH --qos"},
      {"nodeSelector", "see #SBATCH --constraint"},
      {"namespace", "see #SBATCH --account"},
      {"initContainers", kBefore},
      {"initializer", kBefore},
      {"envFrom", "export its variables before sbatch"},
      {"volumeMounts", kFolder},
      {"volumes", kFolder}};
  for (const auto& [name, text] : kHints) {
    const auto at = path.rfind("." + std::string(name));
    const auto end = at + 1 + name.size();
    if (at != path.npos && (end == path.size() || path[end] == '[' || path[end] == '.'))
      return "; " + std::string(text);
  }
  return {};
}

// One line a field that was not read; what Master and Worker have alike is said once.
std::vector<std::string> unread_notes(const Fields& fields, const YamlNode& document) {
  const std::string replicas = "spec.pytorchReplicaSpecs.";
  const auto all = fields.unread(document);
  std::vector<std::string> notes;
  for (auto field : all) {
    const bool master = field.path.starts_with(replicas + "Master.");
    if (master || field.path.starts_with(replicas + "Worker.")) {
      const auto below = field.path.substr(replicas.size() + 6);
      const auto twin = replicas + (master ? "Worker" : "Master") + below;
      if (std::any_of(all.begin(), all.end(), [&](const auto& other) {
            return other.path == twin && other.value == field.value;
          })) {
        if (!master)
          continue;
        field.path = replicas + "*" + below;
      }
    }
    notes.push_back("No counterpart: " + field.path + " (line " + std::to_string(field.line) +
                    "): " + field.value + hint(field.path));
  }
  return notes;
}

struct Reading {
  Fields fields;
  Manifest manifest;
};

// Fields that both kinds have, and what of the document was not read.
void read_common(Reading& reading, const YamlNode& document) {
  auto& [fields, manifest] = reading;
  fields.word(&document, "apiVersion");
  fields.text(&document, "kind");
  const auto* metadata = fields.map(&document, "metadata");
  const char* field = Fields::find(metadata, "name") ? "name" : "generateName";
  manifest.name = fields.text(metadata, field).value_or("");
  while (field[0] == 'g' && manifest.name.ends_with('-'))
    manifest.name.pop_back();
  if (!job_name(manifest.name))
    fields.fail(metadata ? metadata : &document,
                manifest.name.empty() ? "metadata.name is missing"
                                      : "metadata.name " + quoted(manifest.name) +
                                            " is not a name of Kubernetes (a-z, 0-9, - and .)");
}

void read_limits(Reading& reading, const YamlNode* policy) {
  auto& [fields, manifest] = reading;
  manifest.limit_seconds = fields.number(policy, "activeDeadlineSeconds", 10ull * 365 * 86400);
  manifest.held = fields.flag(policy, "suspend");
}

void read_processes(Reading& reading, const YamlNode* map, const char* name) {
  auto& [fields, manifest] = reading;
  const auto word = fields.word(map, name);
  if (!word)
    return;
  const auto number = parse_number(*word, kMaxProcesses);
  if (*word != "auto" && *word != "gpu" && *word != "cpu" && !(number && *number > 0))
    fields.fail(Fields::find(map, name), std::string(name) + " " + quoted(*word) +
                                             " is not auto, gpu, cpu or a number from 1 to " +
                                             std::to_string(kMaxProcesses));
  manifest.processes = *word;
}

// One step runs one program: both replicas have to start the same.
void check_alike(Fields& fields, const Pod& master, const Pod& worker, const YamlNode* where) {
  const char* what =
      master.command != worker.command || master.args != worker.args             ? "programs"
      : master.image != worker.image                                             ? "images"
      : master.variables != worker.variables || master.secrets != worker.secrets ? "variables"
      : master.mounts != worker.mounts || master.folder != worker.folder ? "volumes or folders"
                                                                         : nullptr;
  if (what)
    fields.fail(where, std::string("Master and Worker have different ") + what,
                "one srun step starts one program in all tasks: make them alike");
}

void read_pytorch_job(Reading& reading, const YamlNode& document) {
  auto& [fields, manifest] = reading;
  manifest.kind = Manifest::Kind::kPyTorchJob;
  const auto* spec = fields.map(&document, "spec");
  const auto* policy = fields.map(spec, "runPolicy");
  read_limits(reading, policy);
  fields.map(policy, "schedulingPolicy"); // so that each of its fields is told alone
  read_processes(reading, spec, "nprocPerNode");
  read_processes(reading, fields.map(spec, "elasticPolicy"), "nProcPerNode");
  const auto* replicas = fields.map(spec, "pytorchReplicaSpecs");
  if (replicas)
    for (const auto& item : replicas->items)
      if (item.key != "Master" && item.key != "Worker")
        fields.fail(&item,
                    quoted(item.key) + " is no replica type of a PyTorchJob: Master, Worker");
  std::optional<Pod> first;
  manifest.pods = 0;
  for (const char* name : {"Master", "Worker"}) {
    const auto* replica = fields.map(replicas, name);
    if (!replica)
      continue;
    const auto count = fields.number(replica, "replicas", kMaxPods).value_or(1);
    manifest.pods += static_cast<std::uint32_t>(count);
    const auto* template_spec = fields.map(fields.map(replica, "template"), "spec");
    if (!template_spec) {
      fields.fail(replica, std::string(name) + " has no template.spec");
      continue;
    }
    Pod pod = read_pod(fields, template_spec, "pytorch");
    if (!first) {
      first = std::move(pod);
      continue;
    }
    check_alike(fields, *first, pod, replica);
    auto& most = first->resources;
    if (most != pod.resources)
      manifest.notes.push_back("Master and Worker ask for different resources: each node has the "
                               "larger of both");
    most = {std::max(most.gpus, pod.resources.gpus), std::max(most.cpus, pod.resources.cpus),
            std::max(most.memory_mib, pod.resources.memory_mib)};
  }
  if (!first)
    fields.fail(spec ? spec : &document, "spec.pytorchReplicaSpecs has neither Master nor Worker");
  else if (manifest.pods == 0)
    fields.fail(replicas, "no replicas at all: 0 Master and 0 Worker");
  else
    manifest.pod = *std::move(first);
}

void read_train_job(Reading& reading, const YamlNode& document) {
  auto& [fields, manifest] = reading;
  manifest.kind = Manifest::Kind::kTrainJob;
  const auto* spec = fields.map(&document, "spec");
  read_limits(reading, spec);
  const auto* runtime = fields.map(spec, "runtimeRef");
  const auto name = fields.text(runtime, "name").value_or("");
  if (name.empty())
    fields.fail(runtime ? runtime : (spec ? spec : &document), "spec.runtimeRef.name is missing");
  manifest.runtime = quoted(name);
  const auto* trainer = fields.map(spec, "trainer");
  if (!trainer)
    fields.fail(spec ? spec : &document, "spec.trainer is missing",
                "write the runtime's image and command into it: the runtime is not in this file");
  manifest.pods =
      static_cast<std::uint32_t>(fields.number(trainer, "numNodes", kMaxPods).value_or(1));
  if (manifest.pods == 0)
    fields.fail(Fields::find(trainer, "numNodes"), "numNodes is 0");
  read_processes(reading, trainer, "numProcPerNode");
  manifest.pod = read_container(fields, trainer, "resourcesPerNode");
  manifest.notes.push_back("What runtime " + manifest.runtime +
                           " adds (volumes, variables, defaults) is not in this file");
}

Result<const YamlNode*> choose(const std::vector<YamlNode>& documents, const std::string& job,
                               const std::string& file) {
  const YamlNode* chosen = nullptr;
  std::vector<std::string> seen;
  for (const auto& document : documents) {
    const auto at = [&](const std::string& what, const std::string& help) {
      return yaml_error(file, document.line, document.column, what, help);
    };
    if (document.kind != YamlNode::Kind::kMap)
      return at("not a manifest: a map with apiVersion and kind was expected", kSupported);
    const auto kind = text_of(document, "kind");
    if (kind.empty())
      return at("kind is missing: not a manifest", kSupported);
    if (!job.empty() && name_of(document) != job)
      continue;
    if (other_job(kind))
      return at(
          kind + " cannot be converted",
          (documents.size() > 1 && job.empty() ? "--job NAME chooses another of this file; " : "") +
              std::string(kSupported));
    seen.push_back(kind);
    if (kind != "PyTorchJob" && kind != "TrainJob")
      continue;
    const auto version = text_of(document, "apiVersion");
    const auto* wanted = kind == "TrainJob" ? "trainer.kubeflow.org/v1alpha1" : "kubeflow.org/v1";
    if (version != wanted)
      return at("apiVersion " + quoted(version) + " of " + kind + " is not " + wanted, kSupported);
    if (chosen)
      return at("a second job, " + quoted(name_of(document)) + ", after " +
                    quoted(name_of(*chosen)) + " in line " + std::to_string(chosen->line),
                "--job NAME says which is meant");
    chosen = &document;
  }
  if (chosen)
    return chosen;
  std::vector<std::string> kinds;
  for (const auto& kind : seen)
    kinds.push_back(quoted(kind));
  return Error{file + ": " + (job.empty() ? "no job" : "no job called " + quoted(job)) +
                   (kinds.empty() ? "" : " among " + listing(kinds)),
               kSupported};
}

} // namespace

Result<Manifest> read_manifest(const std::vector<YamlNode>& documents, const std::string& job,
                               const std::string& file) {
  const auto chosen = choose(documents, job, file);
  if (!chosen)
    return chosen.error();
  const YamlNode& document = **chosen;
  Reading reading{Fields(file), {}};
  read_common(reading, document);
  (text_of(document, "kind") == "TrainJob" ? read_train_job : read_pytorch_job)(reading, document);
  if (reading.fields.error())
    return *reading.fields.error();
  auto& notes = reading.manifest.notes;
  for (const auto& other : documents)
    if (&other != &document)
      notes.push_back("Not converted: " + quoted(text_of(other, "kind")) + " " +
                      quoted(name_of(other)) + " (line " + std::to_string(other.line) + ")");
  for (auto& note : unread_notes(reading.fields, document))
    notes.push_back(std::move(note));
  return std::move(reading.manifest);
}

} // namespace dist_train
