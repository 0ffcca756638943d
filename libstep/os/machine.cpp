// SPDX-License-Identifier: BSD-3-Clause
#include "libstep/os/machine.h"

#include "libstep/core/machine_text.h"
#include "libstep/core/text.h"
#include "libstep/os/fd.h"
#include "libstep/os/in_child.h"
#include "libstep/os/machine_hwloc.h"
#include "libstep/os/machine_sysfs.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>

namespace dist_train {

namespace {

// What a cache says about its origin, as infos of the root object.
constexpr const char* kBootInfo = "DistTrainBoot";
constexpr const char* kDevicesInfo = "DistTrainDevices";
constexpr const char* kHwlocInfo = "DistTrainHwloc";

constexpr const char* kMakeOne = "make one with `lstopo FILE.xml` or `dist-train topo --save DIR`";

Error about(const std::string& path, const std::string& reason, const std::string& hint = {}) {
  return Error{path + ": " + reason, hint};
}

std::string errno_text() { return std::strerror(errno); }

struct FileRule {
  bool trusted = false; // only root may have written it, and it is no link
};

Result<std::string> read_file(const std::string& path, FileRule rule) {
  Fd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | (rule.trusted ? O_NOFOLLOW : 0)));
  struct stat status {};
  if (!fd || fstat(fd.get(), &status) != 0)
    return about(path, "cannot be opened: " + errno_text());
  if (!S_ISREG(status.st_mode))
    return about(path, "is not a regular file");
  if (rule.trusted && (status.st_uid != 0 || (status.st_mode & (S_IWGRP | S_IWOTH)) != 0))
    return about(path, "others than root may change it", "chown root, chmod go-w");
  if (static_cast<std::uint64_t>(status.st_size) > kMaxMachineFile)
    return about(path,
                 "is larger than " + std::to_string(kMaxMachineFile >> 20) + " MiB; no machine is");
  std::string text;
  text.resize(static_cast<std::size_t>(status.st_size));
  std::size_t have = 0;
  while (have < text.size()) {
    auto got = read(fd.get(), text.data() + have, text.size() - have);
    if (got < 0 && errno == EINTR)
      continue;
    if (got <= 0)
      break;
    have += static_cast<std::size_t>(got);
  }
  if (have < text.size())
    return about(path, "cannot be read: it changed, or " + errno_text());
  return text;
}

// The value of an attribute of the first element with that name; "" if there is none.
std::string_view attribute(std::string_view xml, std::string_view element, std::string_view name) {
  auto begin = xml.find("<" + std::string(element));
  auto tag = begin == xml.npos ? "" : xml.substr(begin, xml.find('>', begin) - begin);
  auto at = tag.find(std::string(name) + "=\"");
  if (at == tag.npos)
    return "";
  tag.remove_prefix(at + name.size() + 2);
  return tag.substr(0, tag.find('"'));
}

// Why this is no hwloc XML that we can read; "" if nothing speaks against it.
std::string against_xml(std::string_view xml) {
  auto head = xml.substr(0, 4096);
  if (xml.empty())
    return "is empty";
  if (xml.find('\0') != xml.npos)
    return "is a binary file, not hwloc's XML or a machine's text form";
  if (head.find("<system") != head.npos && head.find("<topology") == head.npos)
    return "is an NCCL topology file, which is not enough to place by (and may contradict the "
           "machine); hwloc's XML is needed";
  if (head.find("<topology") == head.npos)
    return "is neither hwloc's XML nor a machine's text form (" + quoted(xml.substr(0, 40)) + ")";
  auto version = attribute(head, "topology", "version");
  auto major = parse_number(version.substr(0, version.find('.')), 999).value_or(1);
  constexpr std::uint64_t kOurs = HWLOC_API_VERSION >> 16;
  if (major > kOurs || (kOurs >= 3 && major < 2))
    return "is XML of hwloc " + std::string(version.empty() ? "1" : version) + ", which hwloc " +
           std::to_string(kOurs) + " cannot read";
  if (xml.rfind("</topology>") == xml.npos)
    return "ends early: it has no </topology>";
  return "";
}

Result<Topology> load_xml(const std::string& path, std::string xml, bool this_system) {
  if (auto reason = against_xml(xml); !reason.empty())
    return about(path, reason, kMakeOne);
  xml.push_back('\0');
  auto topology = load_topology({std::move(xml), this_system});
  if (!topology)
    return about(path, topology.error().message, kMakeOne);
  return topology;
}

// A machine has to have CPUs to be placed on.
Result<Machine> checked(const std::string& path, Machine machine) {
  if (machine.cores.empty())
    return about(path, "describes no CPU", kMakeOne);
  return machine;
}

Result<Machine> read_folder(const std::string& folder) {
  for (const char* part : {"/proc", "/sys"}) {
    struct stat status {};
    if (stat((folder + part).c_str(), &status) != 0 || !S_ISDIR(status.st_mode))
      return about(folder, std::string("has no ") + (part + 1) + " folder",
                   "unpack an archive of hwloc-gather-topology there");
  }
  HwlocEnvironment guard({{"HWLOC_FSROOT", folder}, {"HWLOC_COMPONENTS", "linux,stop"}});
  auto topology = load_topology({});
  if (!topology)
    return about(folder, topology.error().message);
  auto machine = machine_of(topology->get());
  read_nics(machine, folder);
  read_gpu_identity(machine, folder);
  return checked(folder, std::move(machine));
}

Result<Machine> read_xml(const std::string& path, std::string text) {
  HwlocEnvironment guard;
  auto topology = load_xml(path, std::move(text), false);
  if (!topology)
    return topology.error();
  return checked(path, machine_of(topology->get()));
}

Machine with_live_state(Machine machine) {
  read_nics(machine, "");
  read_gpu_identity(machine, "");
  return machine;
}

std::string boot_id() { return read_line_of("/proc/sys/kernel/random/boot_id"); }

std::string devices_text() {
  std::string text;
  for (const auto& name : device_list(""))
    text += (text.empty() ? "" : " ") + name;
  return text.empty() ? "none" : text;
}

// Why a cache is not of this machine as it is now; "" if it is.
std::string against_cache(hwloc_topology_t topology) {
  auto info = [root = hwloc_get_root_obj(topology)](const char* name) {
    const char* value = hwloc_obj_get_info_by_name(root, name);
    return std::string(value ? value : "");
  };
  if (info(kBootInfo) != boot_id())
    return "is of another boot of this node, or no cache";
  if (info(kHwlocInfo) != hwloc_api())
    return "was written by hwloc with API " + info(kHwlocInfo) + "; this one has " + hwloc_api();
  if (info(kDevicesInfo) != devices_text())
    return "GPUs or RDMA devices have come or gone since it was written";
  return "";
}

// Whether an info of hwloc's tells what a part is, not which one it is.
bool tells_kind(std::string_view name) {
  constexpr std::array<std::string_view, 9> kKinds{
      "Architecture", "Backend",        "CPUFamilyNumber", "CPUModel",    "CPUModelNumber",
      "CPUVendor",    "DMIProductName", "OSRelease",       "hwlocVersion"};
  return std::find(kKinds.begin(), kKinds.end(), name) != kKinds.end() ||
         (name.starts_with("Port") && name.ends_with("State"));
}

// hwloc writes each info as an element in a line of its own.
std::string without_names(std::string_view xml) {
  std::string kept;
  for (auto line : split(xml, '\n')) {
    auto name = attribute(line, "info", "name");
    if (name.empty() || tells_kind(name))
      kept.append(line).append("\n");
  }
  return kept;
}

Result<void> write_file(const std::string& path, const std::string& text) {
  auto folder = path.substr(0, path.rfind('/'));
  if (!folder.empty() && mkdir(folder.c_str(), 0755) != 0 && errno != EEXIST)
    return about(folder, "cannot be made: " + errno_text());
  // A name of its own, so that readers and other writers never see a part.
  std::string temporary = path + ".XXXXXX";
  Fd fd(mkostemp(temporary.data(), O_CLOEXEC));
  if (!fd)
    return about(temporary, "cannot be made: " + errno_text());
  bool good = write(fd.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size()) &&
              fchmod(fd.get(), 0644) == 0 && rename(temporary.c_str(), path.c_str()) == 0;
  auto reason = errno_text();
  if (good)
    return {};
  unlink(temporary.c_str());
  return about(path, "cannot be written: " + reason);
}

} // namespace

Result<Machine> read_this_machine() {
  HwlocEnvironment guard;
  auto topology = load_topology({});
  if (!topology)
    return topology.error();
  return checked("this machine", with_live_state(machine_of(topology->get())));
}

Result<Machine> read_machine(const std::string& path) {
  struct stat status {};
  bool folder = stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode);
  auto text = folder ? Result<std::string>(std::string()) : read_file(path, {});
  if (!text)
    return text.error();
  if (text->starts_with(kMachineTextHead) || text->starts_with('#'))
    return parse_machine_text(*text, path);
  // hwloc trusts what it reads; damaged files break it.
  auto described = in_child([&]() -> Result<std::string> {
    auto machine = folder ? read_folder(path) : read_xml(path, *std::move(text));
    if (!machine)
      return machine.error();
    return machine_text(*machine);
  });
  if (!described)
    return described.error().message.starts_with(path)
               ? described.error()
               : about(path, described.error().message, kMakeOne);
  return parse_machine_text(*described, path);
}

Result<Machine> read_machine_cache(const std::string& path) {
  auto text = read_file(path, {.trusted = true});
  if (!text)
    return text.error();
  HwlocEnvironment guard;
  auto topology = load_xml(path, *std::move(text), true);
  if (!topology)
    return topology.error();
  if (auto reason = against_cache(topology->get()); !reason.empty())
    return about(path, reason, "write it again: dist-train topo --cache");
  return checked(path, with_live_state(machine_of(topology->get())));
}

Result<Machine> write_machine_cache(const std::string& path) {
  HwlocEnvironment guard;
  auto topology = load_topology({});
  if (!topology)
    return topology.error();
  auto root = hwloc_get_root_obj(topology->get());
  hwloc_obj_add_info(root, kBootInfo, boot_id().c_str());
  hwloc_obj_add_info(root, kHwlocInfo, hwloc_api().c_str());
  hwloc_obj_add_info(root, kDevicesInfo, devices_text().c_str());
  auto xml = export_xml(topology->get());
  if (!xml)
    return xml.error();
  if (auto written = write_file(path, *xml); !written)
    return written.error();
  return checked("this machine", with_live_state(machine_of(topology->get())));
}

Result<std::string> this_machine_xml() {
  HwlocEnvironment guard;
  auto topology = load_topology({});
  if (!topology)
    return topology.error();
  auto xml = export_xml(topology->get());
  if (!xml)
    return xml.error();
  return without_names(*xml);
}

} // namespace dist_train
