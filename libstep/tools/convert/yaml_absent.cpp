// SPDX-License-Identifier: BSD-3-Clause
// In place of yaml.cpp where yaml-cpp was not found.
#include "libstep/tools/convert/yaml.h"

namespace dist_train {

Result<std::vector<YamlNode>> read_yaml(std::string_view, const std::string& file) {
  return Error{file + ": this dist-train was built without yaml-cpp and cannot read YAML",
               "install libyaml-cpp-dev (Debian) or yaml-cpp-devel and build it again"};
}

} // namespace dist_train
