// SPDX-License-Identifier: BSD-3-Clause
#include "libstep/tools/convert/launch.h"

#include "libstep/core/launchers.h"
#include "libstep/core/text.h"

#include <algorithm>
#include <map>
#include <optional>

namespace dist_train {
namespace {

using Words = std::vector<std::string>;

constexpr std::size_t kMaxWord = 100'000;      // Linux takes 128 KiB
constexpr std::size_t kMaxCommand = 1'000'000; // and 2 MiB for all, with what is inherited
constexpr std::uint32_t kMaxProcesses = 4096;
constexpr const char* kWriteCommand = "write it into the manifest: command: [python, train.py]";

bool is_python(const std::string& word) {
  const auto name = base_name(word);
  return name.starts_with("python") && name.find_first_not_of("0123456789.", 6) == name.npos;
}

std::string printable(const std::string& word) {
  const auto text = quoted(word, 200);
  return word.find_first_of(" '\"") == word.npos ? text.substr(1, text.size() - 2) : text;
}

std::string joined(const Words& words) {
  std::string text;
  for (const auto& word : words)
    text += (text.empty() ? "" : " ") + printable(word);
  return text;
}

// Where torchrun's own arguments begin, 0 if the command is another one, and the Python it uses.
std::size_t torchrun_arguments(const Words& words, std::string& python) {
  if (words.empty())
    return 0;
  if (base_name(words[0]) == "torchrun") {
    python = words[0].substr(0, words[0].size() - 8) + "python";
    return 1;
  }
  std::size_t i = 1;
  while (i < words.size() && words[i] == "-u")
    ++i;
  if (!is_python(words[0]) || i + 1 >= words.size() || words[i] != "-m" ||
      words[i + 1] != "torch.distributed.run")
    return 0;
  python = words[0];
  return i + 2;
}

struct Torchrun {
  Words program;                        // with its own arguments
  std::optional<std::string> processes; // --nproc-per-node
  Words lost;                           // arguments without a counterpart
};

// torchrun's command line taken apart; nothing where it has an argument that is not known here.
std::optional<Torchrun> parse_torchrun(const Words& words, std::size_t i,
                                       const std::string& python) {
  // What a step has anyway, from srun: not worth a word.
  static constexpr std::string_view kReplaced[] = {"nnodes",      "node-rank",    "master-addr",
                                                   "master-port", "rdzv-backend", "rdzv-endpoint",
                                                   "rdzv-id",     "local-addr"};
  static constexpr std::string_view kLost[] = {"max-restarts",
                                               "monitor-interval",
                                               "rdzv-conf",
                                               "start-method",
                                               "role",
                                               "log-dir",
                                               "redirects",
                                               "tee",
                                               "local-ranks-filter",
                                               "logs-specs",
                                               "r",
                                               "t"};
  const auto in = [](const auto& names, const std::string& name) {
    return std::find(std::begin(names), std::end(names), name) != std::end(names);
  };
  Torchrun result;
  bool module = false, no_python = false;
  for (; i < words.size() && words[i].starts_with("-"); ++i) {
    const auto& word = words[i];
    if (word == "--") {
      ++i;
      break;
    }
    const auto equals = word.starts_with("--") ? word.find('=') : word.npos;
    auto name = word.substr(word.starts_with("--") ? 2 : 1);
    name = name.substr(0, name.find('='));
    std::replace(name.begin(), name.end(), '_', '-');
    if (word == "-m" || name == "module") {
      module = true;
    } else if (name == "no-python") {
      no_python = true;
    } else if (name != "standalone") {
      if (name != "nproc-per-node" && !in(kReplaced, name) && !in(kLost, name))
        return std::nullopt;
      if (equals == word.npos && i + 1 >= words.size())
        return std::nullopt;
      const auto value = equals == word.npos ? words[i + 1] : word.substr(equals + 1);
      if (name == "nproc-per-node")
        result.processes = value;
      else if (in(kLost, name))
        result.lost.push_back(word.substr(0, equals) + "=" + value);
      i += equals == word.npos;
    }
  }
  if (i >= words.size() || (module && no_python))
    return std::nullopt;
  if (!no_python)
    result.program = {python, "-u"};
  if (module)
    result.program.push_back("-m");
  result.program.insert(result.program.end(), words.begin() + std::ptrdiff_t(i), words.end());
  return result;
}

// A shell's one simple command as words; nothing where a shell would do more than split it.
std::optional<Words> simple_command(const Words& words) {
  if (words.size() != 3 || (words[1] != "-c" && words[1] != "-lc") ||
      (base_name(words[0]) != "sh" && base_name(words[0]) != "bash") ||
      words[2].find_first_of("\\'\"`$&|;<>(){}[]*?!#~") != std::string::npos)
    return std::nullopt;
  const auto end = words[2].find_last_not_of(" \t\n\r");
  Words result;
  std::string word;
  for (char c : words[2].substr(0, end == std::string::npos ? 0 : end + 1) + " ") {
    if (c == '\n' || c == '\r')
      return std::nullopt; // a second command
    if (c != ' ' && c != '\t') {
      word += c;
    } else if (!word.empty()) {
      result.push_back(std::move(word));
      word.clear();
    }
  }
  return result;
}

// How many processes `auto`, `gpu`, `cpu` or a number mean for a pod; nothing where only the node
// can tell.
std::optional<std::uint32_t> processes_of(const std::string& word, const PodResources& resources) {
  if (const auto number = parse_number(word, kMaxProcesses); number && *number > 0)
    return static_cast<std::uint32_t>(*number);
  if ((word == "auto" || word == "gpu") && resources.gpus > 0)
    return resources.gpus;
  if ((word == "auto" || word == "cpu") && resources.gpus == 0 && resources.cpus > 0)
    return resources.cpus;
  return std::nullopt;
}

// A variable that the operator sets in each pod, as a part of a word; nothing if it sets none.
std::optional<WordPart> operator_variable(const std::string& name, const Manifest& manifest) {
  const bool v1 = manifest.kind == Manifest::Kind::kPyTorchJob;
  const auto number = parse_number(manifest.processes, kMaxProcesses);
  if (name == "PET_NNODES")
    return WordPart{false, std::to_string(manifest.pods)};
  if (name == "PET_NPROC_PER_NODE")
    return WordPart{false, manifest.processes};
  if (name == "PET_NODE_RANK" || (v1 && name == "RANK"))
    return WordPart{true, "NODE_RANK"}; // the pod's number in both
  if (name == "PET_MASTER_ADDR" || (v1 && name == "MASTER_ADDR"))
    return WordPart{true, "MASTER_ADDR"};
  if (name == "PET_MASTER_PORT" || (v1 && name == "MASTER_PORT"))
    return WordPart{true, "MASTER_PORT"};
  if (v1 && name == "WORLD_SIZE")
    return WordPart{false, std::to_string(manifest.pods * number.value_or(1))};
  return std::nullopt;
}

struct Known {
  std::map<std::string, Word> words;
  std::size_t left = kMaxCommand; // for all that is expanded
};

std::size_t size_of(const Word& word) {
  std::size_t size = 0;
  for (const auto& part : word)
    size += part.text.size();
  return size;
}

// Neighbouring texts are one part.
void append(Word& word, const WordPart& part) {
  if (!word.empty() && !word.back().variable && !part.variable)
    word.back().text += part.text;
  else
    word.push_back(part);
}

// Ends early when it, or all together, has become too long to be used.
Word expand(const std::string& text, const Manifest& manifest, Known& known) {
  Word word{{}};
  const auto limit = std::min(kMaxWord, known.left);
  for (std::size_t i = 0; i < text.size() && known.left > 0 && size_of(word) <= limit; ++i) {
    const auto close = text.compare(i, 2, "$(") == 0 ? text.find(')', i) : text.npos;
    if (close != text.npos) {
      const auto name = text.substr(i + 2, close - i - 2);
      const auto found = known.words.find(name);
      const auto set = operator_variable(name, manifest);
      if (found != known.words.end())
        std::for_each(found->second.begin(), found->second.end(),
                      [&](const auto& part) { append(word, part); });
      else
        append(word, set ? *set : WordPart{false, "$(" + name + ")"});
      i = close;
    } else {
      i += text.compare(i, 2, "$$") == 0;
      append(word, {false, text.substr(i, 1)});
    }
  }
  known.left -= std::min(known.left, size_of(word));
  return word;
}

// Set by --dist-train in each task; a pod's own would be wrong there.
bool set_by_step(const std::string& name) {
  static constexpr std::string_view kNames[] = {
      "RANK",      "WORLD_SIZE", "LOCAL_RANK",       "LOCAL_WORLD_SIZE", "MASTER_ADDR",
      "NODE_RANK", "GROUP_RANK", "GROUP_WORLD_SIZE", "MASTER_PORT"};
  return std::find(std::begin(kNames), std::end(kNames), name) != std::end(kNames) ||
         name.starts_with("PET_") || name.starts_with("TORCHELASTIC_") ||
         name.starts_with("DIST_TRAIN_") || name.starts_with("SLURM_");
}

// The pod's variables for env(1), and what $(NAME) stands for. What a secret held the task has in
// its environment.
Known set_variables(const Manifest& manifest, Launch& launch) {
  Known known;
  for (const auto& secret : manifest.pod.secrets) {
    if (set_by_step(secret.name)) {
      launch.notes.push_back("Left out: " + secret.name + " from " + secret.from +
                             ", which the step sets");
      continue;
    }
    known.words[secret.name] = {{true, secret.name}};
    launch.secrets.push_back(secret);
  }
  for (const auto& [name, value] : manifest.pod.variables) {
    if (set_by_step(name)) {
      launch.notes.push_back("Left out: " + name + "=" + quoted(value) + ", which the step sets");
      continue;
    }
    if (name.ends_with("_SOCKET_IFNAME") || name == "NCCL_IB_HCA")
      launch.notes.push_back("Check " + name + "=" + quoted(value) +
                             ": without it the step's own choice counts");
    auto expanded = expand(value, manifest, known);
    Word word{{false, name + "="}};
    for (const auto& part : expanded)
      append(word, part);
    launch.environment.push_back(std::move(word));
    known.words[name] = std::move(expanded);
  }
  return known;
}

// torchrun in front of the program gives way to tasks; false where it cannot.
bool replace_torchrun(const Words& words, const Manifest& manifest, Known& known, Launch& launch) {
  std::string python;
  const auto arguments = torchrun_arguments(words, python);
  const auto torchrun =
      arguments > 0 ? parse_torchrun(words, arguments, python) : std::optional<Torchrun>();
  if (!torchrun)
    return false;
  const auto count = expand(torchrun->processes.value_or(manifest.processes), manifest, known);
  const auto processes = processes_of(count.front().text, manifest.pod.resources);
  if (!processes || count.size() > 1)
    return false;
  launch.tasks_per_node = *processes;
  for (const auto& word : torchrun->program)
    launch.program.push_back(expand(word, manifest, known));
  launch.notes.push_back("torchrun gives way to srun: " + std::to_string(*processes) +
                         " tasks a node, with the variables that it would set");
  if (!torchrun->lost.empty())
    launch.notes.push_back("No counterpart: torchrun " + joined(torchrun->lost));
  return true;
}

// A launcher that would start the whole job on each node, and end with 0 as if all were well.
std::optional<Error> lone_launcher(const Words& words, const Manifest& manifest) {
  const auto launcher = launcher_in(words);
  if (launcher.empty() || is_torchrun(launcher) || manifest.pods < 2)
    return std::nullopt;
  const bool v1 = manifest.kind == Manifest::Kind::kPyTorchJob;
  return Error{"job " + quoted(manifest.name) + ": the launcher " + quoted(launcher) +
                   " would train on each of the " + std::to_string(manifest.pods) + " nodes alone",
               std::string("write torchrun in its place, which gives way to srun: command: "
                           "[torchrun, train.py] and ") +
                   (v1 ? "nprocPerNode" : "numProcPerNode") +
                   " (torchrun --no-python for programs that are not Python)"};
}

// What stays as it is, once a pod: a launcher that starts its own processes, or the program.
void keep_command(const Words& words, const Manifest& manifest, Launch& launch) {
  const auto mentions = [&](const char* name) {
    return std::any_of(words.begin(), words.end(),
                       [&](const auto& word) { return word.find(name) != word.npos; });
  };
  const auto number = parse_number(manifest.processes, kMaxProcesses);
  if (mentions("torchrun") || mentions("torch.distributed.run") ||
      mentions("torch.distributed.launch")) {
    launch.option = "--dist-train=torchrun" + (number ? ",nproc=" + manifest.processes : "");
    launch.notes.push_back("torchrun stays, one task a node: what its command does not say comes "
                           "from srun as PET_*");
    // A shell's text may have the operator's names of the pods; torchrun gives its workers others.
    for (const char* name : {"RANK", "WORLD_SIZE"})
      if (const auto set = operator_variable(name, manifest); set && mentions(name))
        launch.environment.push_back({{false, std::string(name) + "="}, *set});
    return;
  }
  if (manifest.runtime.find("jax") != manifest.runtime.npos)
    launch.option = "--dist-train=jax";
  if (const auto launcher = launcher_in(words); !launcher.empty())
    launch.notes.push_back(launcher + " starts processes of its own in each task: start its "
                                      "program instead, one task a process");
  const auto several = std::max<std::uint64_t>(number.value_or(1), manifest.pod.resources.gpus);
  if (several > 1)
    launch.notes.push_back("One task a node, as the manifest starts one process a pod; for one a "
                           "GPU: --ntasks-per-node=" +
                           std::to_string(several));
}

// What is wrong with a program and variables that are to be started through srun and env(1).
std::optional<Error> check_words(const Launch& launch, const Known& known) {
  for (const auto* list : {&launch.environment, &launch.program})
    for (const auto& word : *list)
      if (size_of(word) > kMaxWord || known.left == 0)
        return Error{"more than " + std::to_string(known.left == 0 ? kMaxCommand : kMaxWord) +
                         " bytes in " + (known.left == 0 ? "all words" : "one word") +
                         " of command, args or env: " + quoted(word.front().text, 40),
                     "no program can be given that; put it into a file"};
  const auto& first = launch.program.front().front();
  if (!first.variable && (first.text.empty() || first.text[0] == '-'))
    return Error{launch.entrypoint
                     ? "args without command, " + quoted(first.text, 40) +
                           " and on, are for the image's own command, which is not in this file"
                     : "the command begins with " + quoted(first.text, 40) +
                           ", which is no program",
                 kWriteCommand};
  const auto has_equals = [](const WordPart& part) {
    return part.text.find('=') != part.text.npos;
  };
  if (!launch.environment.empty() &&
      std::any_of(launch.program[0].begin(), launch.program[0].end(), has_equals))
    return Error{"the command begins with " + quoted(first.text, 40) +
                     ", which env(1) would take for a variable",
                 "start it by another: command: [sh, -c, ...]"};
  return std::nullopt;
}

} // namespace

Result<Launch> plan_launch(const Manifest& manifest) {
  const Pod& pod = manifest.pod;
  Launch launch;
  const auto job = "job " + quoted(manifest.name);
  auto known = set_variables(manifest, launch);
  Words words = pod.command;
  words.insert(words.end(), pod.args.begin(), pod.args.end());
  if (words.empty() || (pod.command.empty() && pod.image.empty()))
    return Error{job + " names no command; the " + (pod.image.empty() ? "runtime" : "image") +
                     " has one, but not this file",
                 kWriteCommand};
  launch.entrypoint = pod.command.empty();
  if (launch.entrypoint)
    launch.notes.push_back("args without command are taken for the program. The image's own "
                           "command, which pyxis runs before, has to leave that to them; should "
                           "it be the program itself, write both into the manifest as command");
  std::string python;
  if (const auto simple = simple_command(words); simple && torchrun_arguments(*simple, python) > 0)
    words = *simple;
  if (auto error = lone_launcher(words, manifest))
    return *std::move(error);
  if (!replace_torchrun(words, manifest, known, launch)) {
    for (const auto& word : words)
      launch.program.push_back(expand(word, manifest, known));
    keep_command(words, manifest, launch);
  }
  if (auto wrong = check_words(launch, known))
    return Error{job + ": " + wrong->message, wrong->hint};
  return launch;
}

} // namespace dist_train
