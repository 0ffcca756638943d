// SPDX-License-Identifier: BSD-3-Clause
#include "libstep/tools/convert.h"

#include "libstep/core/text.h"
#include "libstep/tools/arguments.h"
#include "libstep/tools/convert/script.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

namespace dist_train {
namespace {

// One byte more than is allowed is enough to know; so a device cannot fill the memory.
Result<std::string> read_file(const std::string& path) {
  const std::unique_ptr<FILE, int (*)(FILE*)> file(std::fopen(path.c_str(), "re"), std::fclose);
  std::string text(kMaxYamlBytes + 1, '\0');
  if (file)
    text.resize(std::fread(text.data(), 1, text.size(), file.get()));
  if (!file || std::ferror(file.get()))
    return Error{"cannot read " + quoted(path) + ": " + std::strerror(errno)};
  return text;
}

Result<std::string> convert(const std::string& path, const std::string& job, bool container) {
  const auto text = read_file(path);
  if (!text)
    return text.error();
  const auto quoted_path = quoted(path);
  const auto name = quoted_path.substr(1, quoted_path.size() - 2);
  const auto documents = read_yaml(*text, name);
  if (!documents)
    return documents.error();
  const auto manifest = read_manifest(*documents, job, name);
  if (!manifest)
    return manifest.error();
  const auto launch = plan_launch(*manifest);
  if (!launch)
    return Error{name + ": " + launch.error().message, launch.error().hint};
  if (launch->entrypoint && !container)
    return Error{name + ": no command but the image's own, and --no-container",
                 "write the command into the manifest: command: [python, train.py]"};
  return job_script(*manifest, *launch, name, container);
}

} // namespace

int run_convert(const std::vector<std::string>& words) {
  std::vector<std::string> rest, files;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const bool value = i > 0 && words[i - 1] == "--job";
    (words[i].starts_with("--") || value ? rest : files).push_back(words[i]);
  }
  const auto arguments = parse_arguments(rest, {"no-container"}, {"job"});
  if (!arguments)
    return complain("convert", arguments.error(), 2);
  if (files.size() != 1)
    return complain("convert",
                    Error{files.empty() ? "no file" : "more than one file: " + quoted(files[1]),
                          "dist-train convert MANIFEST.yaml >job.sbatch"},
                    2);
  const auto job = arguments->find("job");
  const auto script = convert(files.front(), job == arguments->end() ? "" : job->second,
                              !arguments->contains("no-container"));
  if (!script)
    return complain("convert", script.error(), 1);
  if (std::fputs(script->c_str(), stdout) < 0 || std::fflush(stdout) != 0)
    return complain("convert", Error{std::string("cannot write: ") + std::strerror(errno)}, 1);
  return 0;
}

} // namespace dist_train
