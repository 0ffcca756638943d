// SPDX-License-Identifier: BSD-3-Clause
// Manifests of Kubeflow and what job script they become: of a stranger's text nothing is ever code.
#include "libstep/tools/convert/script.h"
#include "tests/fuzz/check.h"

using namespace dist_train;
using namespace dist_train::fuzz;

namespace {

constexpr std::string_view kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                    "0123456789_-./:=@%+, ";

// What a shell reads as one command: words that are plain or in single quotes, over several lines
// by backslashes alone. Returns what is after it.
std::string_view after_command(std::string_view text) {
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto two = text.substr(i, 2);
    if (text[i] == '\'') {
      quoted = !quoted;
    } else if (!quoted && text[i] == '\n') {
      return text.substr(i + 1);
    } else if (!quoted && (two == "\\\n" || two == "\\'")) {
      ++i;
    } else {
      require(quoted || kPlain.find(text[i]) != kPlain.npos, "outside quotes all is plain");
    }
  }
  require(false, "a script ends with a newline, outside quotes");
  return {};
}

void check_script(std::string_view script) {
  constexpr std::string_view kBegin = "printenv ", kMiddle = " >/dev/null || { echo ",
                             kEnd = " >&2; exit 1; }\n";
  require(script.starts_with("#!/bin/bash\n#"), "a script begins as one");
  while (script.starts_with('#')) {
    const auto line = script.substr(0, script.find('\n'));
    require(printable(line), "a comment is printable");
    require(!line.starts_with("#SBATCH") || line.size() < 300, "an option is short");
    script.remove_prefix(line.size() + 1);
  }
  while (script.starts_with(kBegin)) {
    const auto middle = script.find(kMiddle), end = script.find(kEnd);
    require(middle < end && end != script.npos, "a check of a secret is as it has to be");
    require(script.substr(0, middle).find_first_not_of(kPlain) == script.npos, "its name is plain");
    auto text = std::string(script.substr(middle + kMiddle.size(), end - middle - kMiddle.size()));
    require(after_command(text + "\n").empty(), "its text is one word");
    script.remove_prefix(end + kEnd.size());
  }
  require(after_command(script).empty(), "one command, and no more");
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto documents = read_yaml(text_of(data, size), "f");
  if (!documents) {
    require_readable(documents.error());
    return 0;
  }
  const auto manifest = read_manifest(*documents, "", "f");
  if (!manifest) {
    require_readable(manifest.error());
    return 0;
  }
  const auto launch = plan_launch(*manifest);
  if (!launch) {
    require_readable(launch.error());
    return 0;
  }
  check_script(job_script(*manifest, *launch, "f", true));
  check_script(job_script(*manifest, *launch, "f", false));
  return 0;
}
