// SPDX-License-Identifier: BSD-3-Clause
#include "libstep/tools/convert/pod.h"

#include "libstep/core/text.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <optional>

namespace dist_train {
namespace {

constexpr const char* kGpuNames[] = {"nvidia.com/gpu", "amd.com/gpu"};

// A quantity of Kubernetes ("500m", "16Gi", "1e3"), in units; nothing where it is none.
std::optional<double> quantity(const std::string& text) {
  static const std::map<std::string, double> kSuffixes = {
      {"", 1},        {"n", 1e-9},    {"u", 1e-6},    {"m", 1e-3},   {"k", 1e3},     {"M", 1e6},
      {"G", 1e9},     {"T", 1e12},    {"P", 1e15},    {"E", 1e18},   {"Ki", 0x1p10}, {"Mi", 0x1p20},
      {"Gi", 0x1p30}, {"Ti", 0x1p40}, {"Pi", 0x1p50}, {"Ei", 0x1p60}};
  if (text.empty() || text.size() > 40 || text.find_first_of("xXnN") == 0)
    return std::nullopt;
  const auto mantissa = text.find_first_not_of("+0123456789.");
  if (mantissa == 0)
    return std::nullopt;
  const auto digits = text.substr(0, mantissa);
  char* end = nullptr;
  double value = std::strtod(digits.c_str(), &end);
  if (*end != '\0')
    return std::nullopt;
  std::string suffix = mantissa == text.npos ? "" : text.substr(mantissa);
  if (suffix.size() > 1 && (suffix[0] == 'e' || suffix[0] == 'E')) {
    const auto exponent = parse_number(suffix.substr(suffix[1] == '+' ? 2 : 1), 18);
    if (!exponent)
      return std::nullopt;
    value *= std::pow(10.0, double(*exponent));
    suffix.clear();
  }
  const auto factor = kSuffixes.find(suffix);
  return factor == kSuffixes.end() ? std::nullopt : std::optional(value * factor->second);
}

// The larger of what is asked for and what is allowed: Slurm's share is both at once.
double resource(Fields& fields, const YamlNode* resources, const char* name, double limit) {
  double most = 0;
  for (const char* part : {"requests", "limits"}) {
    const auto* map = fields.map(resources, part);
    const auto word = fields.word(map, name);
    if (!word)
      continue;
    const auto value = quantity(*word);
    if (!value || *value > limit)
      fields.fail(Fields::find(map, name), std::string(name) + " " + quoted(*word) +
                                               " is not a quantity such as 4, 500m or 16Gi");
    else
      most = std::max(most, *value);
  }
  return most;
}

PodResources read_resources(Fields& fields, const YamlNode* resources) {
  PodResources result;
  for (const char* name : kGpuNames) {
    const double gpus = resource(fields, resources, name, 1024);
    if (gpus != std::floor(gpus))
      fields.fail(resources, std::string(name) + " is not a whole number");
    result.gpus += static_cast<std::uint32_t>(gpus);
  }
  result.cpus = static_cast<std::uint32_t>(std::ceil(resource(fields, resources, "cpu", 65536)));
  result.memory_mib =
      static_cast<std::uint64_t>(std::ceil(resource(fields, resources, "memory", 0x1p60) / 0x1p20));
  return result;
}

// What Kubernetes allows in a name, but a leading dash, which env(1) would take for an option.
bool variable_name(const std::string& name) {
  return !name.empty() && name[0] != '-' && (name[0] < '0' || name[0] > '9') &&
         name.find_first_not_of(
             "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.") == name.npos;
}

// "secret hf, key token", after the fields that Kubernetes has for it.
std::string source_text(Fields& fields, const YamlNode& from, bool& optional) {
  for (const auto& [field, what] :
       {std::pair{"secretKeyRef", "secret "}, {"configMapKeyRef", "ConfigMap "}}) {
    if (const auto* reference = fields.map(&from, field)) {
      optional = fields.flag(reference, "optional");
      return what + quoted(fields.text(reference, "name").value_or("")) + ", key " +
             quoted(fields.text(reference, "key").value_or(""));
    }
  }
  for (const auto& item : from.items)
    fields.read(item);
  if (const auto* field = Fields::find(&from, "fieldRef");
      field && field->kind == YamlNode::Kind::kMap)
    return "the pod's field " + quoted(fields.text(field, "fieldPath").value_or(""));
  return from.items.empty() ? "nothing" : quoted(from.items.front().key);
}

void read_variables(Fields& fields, const YamlNode* container, Pod& pod) {
  for (const auto* entry : fields.maps(container, "env")) {
    const auto name = fields.text(entry, "name").value_or("");
    if (!variable_name(name))
      fields.fail(entry, "a variable cannot be called " + quoted(name));
    if (const auto* from = fields.map(entry, "valueFrom")) {
      bool optional = false;
      const auto source = source_text(fields, *from, optional);
      pod.secrets.push_back({name, source, optional});
    } else {
      pod.variables.push_back({name, fields.text(entry, "value").value_or("")});
    }
  }
}

// Volumes and mounts of other kinds than host paths stay unread.
void read_mounts(Fields& fields, const YamlNode* spec, const YamlNode& container, Pod& pod) {
  std::map<std::string, std::string> host_paths;
  if (const auto* volumes = fields.list(spec, "volumes")) {
    for (const auto& volume : volumes->items) {
      if (!Fields::find(&volume, "hostPath"))
        continue;
      fields.read(volume);
      host_paths[fields.text(&volume, "name").value_or("")] =
          fields.text(fields.map(&volume, "hostPath"), "path").value_or("");
    }
  }
  const auto* mounts = fields.list(&container, "volumeMounts");
  if (!mounts)
    return;
  for (const auto& mount : mounts->items) {
    const auto* name = Fields::find(&mount, "name");
    const auto volume = host_paths.find(name ? name->text : "");
    if (volume == host_paths.end() || Fields::find(&mount, "subPath"))
      continue;
    fields.read(mount);
    fields.text(&mount, "name");
    const auto target = fields.text(&mount, "mountPath").value_or("");
    for (const auto& path : {volume->second, target})
      // pyxis writes it into a shell's double quotes
      if (!path.starts_with('/') || path.find_first_of(":,\n\"$`\\") != path.npos)
        fields.fail(&mount, "the path " + quoted(path) +
                                " cannot be mounted: it has to begin with "
                                "/ and be without : , \" $ ` \\ and newline");
    pod.mounts.push_back({volume->second, target, fields.flag(&mount, "readOnly")});
  }
}

} // namespace

Pod read_container(Fields& fields, const YamlNode* container, const char* resources_name) {
  Pod pod;
  pod.image = fields.text(container, "image").value_or("");
  pod.command = fields.texts(container, "command");
  pod.args = fields.texts(container, "args");
  pod.folder = fields.text(container, "workingDir").value_or("");
  pod.resources = read_resources(fields, fields.map(container, resources_name));
  read_variables(fields, container, pod);
  if (pod.image.find_first_of(" \t\r\n") != pod.image.npos)
    fields.fail(Fields::find(container, "image"),
                "image " + quoted(pod.image) + " has blanks in it");
  return pod;
}

Pod read_pod(Fields& fields, const YamlNode* spec, const char* name) {
  const auto containers = fields.maps(spec, "containers");
  const YamlNode* chosen = containers.size() == 1 ? containers.front() : nullptr;
  for (const auto* container : containers)
    if (const auto* field = Fields::find(container, "name"); field && field->text == name)
      chosen = container;
  if (!chosen) {
    fields.fail(containers.empty() ? spec : containers.front(),
                containers.empty()
                    ? "no containers"
                    : "no container called '" + std::string(name) + "' among several");
    return {};
  }
  fields.text(chosen, "name");
  Pod pod = read_container(fields, chosen, "resources");
  read_mounts(fields, spec, *chosen, pod);
  return pod;
}

} // namespace dist_train
