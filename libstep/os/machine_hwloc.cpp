// SPDX-License-Identifier: BSD-3-Clause
#include "libstep/os/machine_hwloc.h"

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string_view>

extern char** environ; // NOLINT: POSIX declares it nowhere

namespace dist_train {

namespace {

constexpr std::string_view kPrefix = "HWLOC_";

// Vendors' libraries load drivers, may hang and are not needed: the PCI class tells a GPU. x86
// binds the calling thread to every CPU in turn; Linux knows the same.
constexpr std::array kUnwanted{"cuda", "nvml", "opencl", "gl", "rsmi", "levelzero", "ve", "x86"};

Error failure(const char* what) {
  return Error{"hwloc (API " + hwloc_api() + ") " + what + ": " + std::strerror(errno)};
}

} // namespace

HwlocEnvironment::HwlocEnvironment(const std::vector<std::pair<std::string, std::string>>& ours) {
  for (char** entry = environ; entry && *entry; ++entry) {
    std::string_view text = *entry;
    auto equals = text.find('=');
    if (text.starts_with(kPrefix) && equals != text.npos)
      theirs_.emplace_back(text.substr(0, equals), text.substr(equals + 1));
  }
  for (const auto& [name, value] : theirs_)
    unsetenv(name.c_str());
  setenv("HWLOC_HIDE_ERRORS", "2", 1);          // what is wrong is said by us
  setenv("HWLOC_PLUGINS_PATH", "/dev/null", 1); // no folder: no plug-in is loaded
  setenv("HWLOC_LIBXML", "0", 1);               // its own parser knows no entities and catalogues
  for (const auto& [name, value] : ours)
    setenv(name.c_str(), value.c_str(), 1);
}

HwlocEnvironment::~HwlocEnvironment() {
  std::vector<std::string> left;
  for (char** entry = environ; entry && *entry; ++entry)
    if (std::string_view text = *entry; text.starts_with(kPrefix))
      left.emplace_back(text.substr(0, text.find('=')));
  for (const auto& name : left)
    unsetenv(name.c_str());
  for (const auto& [name, value] : theirs_)
    setenv(name.c_str(), value.c_str(), 1);
}

std::string hwloc_api() {
  auto version = hwloc_get_api_version();
  return std::to_string(version >> 16) + '.' + std::to_string((version >> 8) & 0xff) + '.' +
         std::to_string(version & 0xff);
}

Result<Topology> load_topology(const TopologySource& source) {
  if (hwloc_get_api_version() >> 16 != HWLOC_API_VERSION >> 16)
    return Error{"built for hwloc " + std::to_string(HWLOC_API_VERSION >> 16) +
                 ", but the API of the library that runs is " + hwloc_api()};
  hwloc_topology_t raw = nullptr;
  if (hwloc_topology_init(&raw) != 0)
    return failure("cannot begin");
  Topology topology(raw);

  unsigned long flags = HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED;
#if HWLOC_API_VERSION >= 0x00020500
  flags |= HWLOC_TOPOLOGY_FLAG_DONT_CHANGE_BINDING;
#endif
#if HWLOC_API_VERSION >= 0x00020800
  flags |= HWLOC_TOPOLOGY_FLAG_NO_DISTANCES | HWLOC_TOPOLOGY_FLAG_NO_MEMATTRS |
           HWLOC_TOPOLOGY_FLAG_NO_CPUKINDS;
#endif
  if (!source.xml.empty()) {
    if (source.this_system)
      flags |= HWLOC_TOPOLOGY_FLAG_IS_THISSYSTEM | HWLOC_TOPOLOGY_FLAG_THISSYSTEM_ALLOWED_RESOURCES;
    if (hwloc_topology_set_xmlbuffer(raw, source.xml.data(), static_cast<int>(source.xml.size())) !=
        0)
      return failure("cannot read this XML");
  } else {
    for (const char* name : kUnwanted)
      hwloc_topology_set_components(raw, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, name);
  }
  // For XML, flags of what the live machine may do are refused by some releases: fewer will do.
  if (hwloc_topology_set_flags(raw, flags) != 0)
    return failure("refuses its flags");
  hwloc_topology_set_io_types_filter(raw, HWLOC_TYPE_FILTER_KEEP_IMPORTANT);
  hwloc_topology_set_icache_types_filter(raw, HWLOC_TYPE_FILTER_KEEP_NONE);
  hwloc_topology_set_type_filter(raw, HWLOC_OBJ_MISC, HWLOC_TYPE_FILTER_KEEP_NONE);
  errno = 0;
  if (hwloc_topology_load(raw) != 0)
    return failure(source.xml.empty() ? "cannot look at the machine" : "cannot read this XML");
  return topology;
}

Result<std::string> export_xml(hwloc_topology_t topology) {
  char* text = nullptr;
  int size = 0;
  if (hwloc_topology_export_xmlbuffer(topology, &text, &size, 0) != 0)
    return failure("cannot write XML");
  std::string xml(text, size > 0 && text[size - 1] == '\0' ? static_cast<std::size_t>(size - 1)
                                                           : static_cast<std::size_t>(size));
  hwloc_free_xmlbuffer(topology, text);
  return xml;
}

} // namespace dist_train
