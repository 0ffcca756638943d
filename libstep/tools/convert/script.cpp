// SPDX-License-Identifier: BSD-3-Clause
#include "libstep/tools/convert/script.h"

#include "libstep/core/text.h"

#include <algorithm>
#include <set>

namespace dist_train {
namespace {

constexpr const char* kContinued = " \\\n  ";

// A word with the task's variables in it, for a shell in the task, which has no $a.b or $a-b.
std::string task_word(const Word& word) {
  std::string text;
  for (const auto& part : word)
    if (part.variable)
      text += part.text.find_first_of(".-") == part.text.npos ? "\"$" + part.text + "\""
                                                              : "\"$(printenv " + part.text + ")\"";
    else if (!part.text.empty() || word.size() == 1)
      text += shell_word(part.text);
  return text;
}

std::string task_words(const std::vector<Word>& words, const char* between) {
  std::string text;
  for (const auto& word : words)
    text += (text.empty() ? "" : between) + task_word(word);
  return text;
}

// For a variable of the task; and srun itself would take ":" for the end of a component.
bool needs_shell(const std::vector<Word>& words) {
  return std::any_of(words.begin(), words.end(), [](const auto& word) {
    return word == Word{{false, ":"}} ||
           std::any_of(word.begin(), word.end(), [](const auto& part) { return part.variable; });
  });
}

// Docker's name of an image as enroot has it: REGISTRY#NAME:TAG.
std::string enroot_image(const std::string& image) {
  const auto slash = image.find('/');
  const auto registry = image.substr(0, slash);
  if (slash == image.npos ||
      (registry.find_first_of(".:") == registry.npos && registry != "localhost"))
    return image;
  return registry + "#" + image.substr(slash + 1);
}

std::string mount_list(const std::vector<PodMount>& mounts) {
  std::string list;
  for (const auto& mount : mounts)
    list += (list.empty() ? "" : ",") + mount.source + ":" + mount.target +
            (mount.read_only ? ":ro" : "");
  return list;
}

std::vector<std::string> container_options(const Pod& pod, const Launch& launch) {
  std::vector<std::string> options{"--container-image=" + enroot_image(pod.image)};
  if (!pod.mounts.empty())
    options.push_back("--container-mounts=" + mount_list(pod.mounts));
  if (!pod.folder.empty())
    options.push_back("--container-workdir=" + pod.folder);
  if (launch.entrypoint)
    options.push_back("--container-entrypoint");
  return options;
}

// "" where the manifest does not say.
std::string cpus_option(const Manifest& manifest, const Launch& launch) {
  const auto cpus = manifest.pod.resources.cpus;
  return cpus == 0
             ? ""
             : "--cpus-per-task=" + std::to_string(std::max(1u, cpus / launch.tasks_per_node));
}

std::string directives(const Manifest& manifest, const Launch& launch) {
  const auto& resources = manifest.pod.resources;
  std::string text = "#SBATCH --job-name=" + manifest.name + "\n";
  text += "#SBATCH --nodes=" + std::to_string(manifest.pods) +
          " --ntasks-per-node=" + std::to_string(launch.tasks_per_node) + "\n";
  if (resources.gpus > 0)
    text += "#SBATCH --gpus-per-node=" + std::to_string(resources.gpus) + "\n";
  if (resources.cpus > 0)
    text += "#SBATCH " + cpus_option(manifest, launch) + "\n";
  if (resources.memory_mib > 0)
    text += "#SBATCH --mem=" + std::to_string(resources.memory_mib) + "M\n";
  if (manifest.limit_seconds)
    text += "#SBATCH --time=" +
            std::to_string(std::max<std::uint64_t>(1, (*manifest.limit_seconds + 59) / 60)) +
            " # minutes\n";
  if (manifest.held)
    text += "#SBATCH --hold # it was suspended: scontrol release JOB\n";
  return text;
}

// A job without a secret would fail late, in the program; so it fails here.
std::string secret_checks(const std::vector<PodSecret>& secrets) {
  std::string text;
  for (const auto& secret : secrets) {
    const auto what =
        secret.name + " is not set: export what " + secret.from + " held before sbatch";
    text += secret.optional ? "# Export " + secret.name + " before sbatch if the program needs " +
                                  secret.from + "\n"
                            : "printenv " + secret.name + " >/dev/null || { echo " +
                                  shell_word(what) + " >&2; exit 1; }\n";
  }
  return text;
}

} // namespace

std::string shell_word(std::string_view text) {
  constexpr std::string_view kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                      "0123456789_-./:=@%+,";
  if (!text.empty() && text.find_first_not_of(kPlain) == text.npos)
    return std::string(text);
  std::string word = "'";
  for (char c : text)
    if (c == '\'')
      word += "'\\''";
    else if (c == '\n' && word.back() == '\r')
      word += "''\n"; // sbatch takes no script that has both as neighbours
    else
      word += c;
  return word + "'";
}

std::string job_script(const Manifest& manifest, const Launch& launch, const std::string& source,
                       bool container) {
  const Pod& pod = manifest.pod;
  const bool contained = container && !pod.image.empty();
  std::vector<std::string> notes = launch.notes;
  notes.insert(notes.end(), manifest.notes.begin(), manifest.notes.end());
  std::vector<std::string> options{launch.option};
  if (auto cpus = cpus_option(manifest, launch); !cpus.empty())
    options.push_back(std::move(cpus)); // srun of Slurm 22.05 to 23.02 does not inherit it
  if (contained) {
    for (const auto& option : container_options(pod, launch))
      options.push_back(option);
    notes.push_back("--container-...: pyxis has to be there; dist-train convert --no-container "
                    "makes a script without");
  } else {
    if (!pod.folder.empty())
      options.push_back("--chdir=" + pod.folder);
    if (!pod.image.empty())
      notes.push_back("Left out: image " + quoted(pod.image, kMaxYamlBytes));
    if (!pod.mounts.empty())
      notes.push_back("Left out: mounts " + quoted(mount_list(pod.mounts), kMaxYamlBytes));
  }
  std::string text = "#!/bin/bash\n# From " + source + " by dist-train convert\n";
  text += directives(manifest, launch);
  for (const auto& note : notes)
    text += "# " + note + "\n";
  text += secret_checks(launch.secrets) + "srun";
  for (const auto& option : options)
    text += (option == options.front() ? " " : kContinued) + shell_word(option);
  // env(1) in the task, where it comes after the image's variables and touches nothing of srun's.
  std::string command = task_words(launch.program, " ");
  if (!launch.environment.empty())
    command = "env " + task_words(launch.environment, kContinued) + kContinued + command;
  if (needs_shell(launch.program) || needs_shell(launch.environment))
    command = "sh -c " + shell_word("exec " + command);
  return text + kContinued + command + "\n";
}

} // namespace dist_train
