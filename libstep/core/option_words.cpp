// SPDX-License-Identifier: BSD-3-Clause
#include "libstep/core/option_words.h"

#include "libstep/core/rendezvous.h"
#include "libstep/core/text.h"

#include <algorithm>
#include <array>

namespace dist_train {

namespace {

constexpr std::uint32_t kMaxWaitSeconds = 86400;
// What all voices together say must fit into kMaxOptionText.
constexpr std::size_t kMaxInterfaces = 512;
constexpr std::size_t kMaxNics = 256;
constexpr std::size_t kMaxPath = 255;
constexpr std::uint32_t kMaxThreads = 4096;
constexpr std::uint32_t kMaxProcesses = 4096; // of a node

std::optional<PortRange> port_range(std::string_view value) {
  auto dash = value.find('-');
  if (dash == value.npos)
    return std::nullopt;
  auto low = parse_number(value.substr(0, dash), 65535);
  auto high = parse_number(value.substr(dash + 1), 65535);
  if (!low || !high || *low < 1024 || *high < *low + kFewestPorts - 1)
    return std::nullopt;
  return PortRange{static_cast<std::uint16_t>(*low), static_cast<std::uint16_t>(*high)};
}

std::optional<OmpRule> omp_rule(std::string_view value) {
  if (value == "auto")
    return OmpRule{OmpRule::kAuto};
  if (value == "keep")
    return OmpRule{OmpRule::kKeep};
  auto threads = parse_number(value, kMaxThreads);
  if (!threads || *threads == 0)
    return std::nullopt;
  return OmpRule{OmpRule::kFixed, static_cast<std::uint32_t>(*threads)};
}

// 0 stands for auto.
std::optional<std::uint32_t> process_count(std::string_view value) {
  if (value == "auto")
    return 0;
  auto count = parse_number(value, kMaxProcesses);
  if (!count || *count == 0)
    return std::nullopt;
  return static_cast<std::uint32_t>(*count);
}

std::optional<std::string> name_list(std::string_view value, std::size_t most) {
  auto parts = split(value, '+');
  bool bad = parts.empty() || value.size() > most ||
             std::any_of(parts.begin(), parts.end(), [](std::string_view part) {
               return part.empty() || part == "^" || part.find_first_of("=%") != part.npos ||
                      part.find('^', 1) != part.npos;
             });
  return bad ? std::nullopt : std::optional<std::string>(value);
}

// One of two words.
template <typename T>
std::optional<T> either(std::string_view value, const char* a, T if_a, const char* b, T if_b) {
  return value == a ? std::optional<T>(if_a) : value == b ? std::optional<T>(if_b) : std::nullopt;
}

const char* to_text(CheckRule rule) {
  return rule == CheckRule::kEnd ? "end" : rule == CheckRule::kWarn ? "warn" : "off";
}

constexpr std::array<std::pair<std::string_view, BindRule>, 6> kBindings{
    {{"auto", BindRule::kAuto},
     {"gpu", BindRule::kGpu},
     {"numa", BindRule::kNuma},
     {"core", BindRule::kCore},
     {"keep", BindRule::kKeep},
     {"none", BindRule::kNone}}};

template <typename T>
bool store(std::optional<T>& member, std::optional<T> value) {
  if (value)
    member = std::move(value);
  return member.has_value();
}

} // namespace

std::string_view name_of(Key key) {
  for (const auto& row : kKeys)
    if (row.key == key)
      return row.name;
  return "";
}

bool set_value(Options& options, Key key, std::string_view value) {
  switch (key) {
  case Key::kEnv:
    return store(options.env, either(value, "ours", EnvRule::kOurs, "keep", EnvRule::kKeep));
  case Key::kPort:
    return store(options.port, port_range(value));
  case Key::kIface:
    return store(options.iface, name_list(value, kMaxInterfaces));
  case Key::kGpus:
    return store(options.gpus, either(value, "shared", GpuRule::kShared, "own", GpuRule::kOwn));
  case Key::kNic:
    return store(options.nic, name_list(value, kMaxNics));
  case Key::kOmp:
    return store(options.omp, omp_rule(value));
  case Key::kNproc:
    return store(options.nproc, process_count(value));
  case Key::kWait: {
    auto seconds = parse_number(value, kMaxWaitSeconds);
    if (!seconds || *seconds == 0)
      return false;
    options.wait_seconds = static_cast<std::uint32_t>(*seconds);
    return true;
  }
  case Key::kKill:
    return store(options.kill, either(value, "yes", true, "no", false));
  case Key::kLimits:
    return store(options.limits,
                 either(value, "keep", LimitRule::kKeep, "raise", LimitRule::kRaise));
  case Key::kBind:
    for (const auto& [word, rule] : kBindings)
      if (value == word) {
        options.bind = rule;
        return true;
      }
    return false;
  case Key::kTopology:
    if (!value.starts_with('/') || value.size() > kMaxPath)
      return false;
    options.topology = value;
    return true;
  case Key::kChecks:
    for (auto rule : {CheckRule::kEnd, CheckRule::kWarn, CheckRule::kOff})
      if (value == to_text(rule)) {
        options.checks = rule;
        return true;
      }
    return false;
  case Key::kVerbose:
  case Key::kDryRun:
  case Key::kOversubscribe:
  case Key::kMode:
  case Key::kStrategy:
  case Key::kDefault:
    break;
  }
  return false;
}

std::optional<std::string> value_text(const Options& options, Key key) {
  if (key == Key::kEnv && options.env)
    return *options.env == EnvRule::kOurs ? "ours" : "keep";
  if (key == Key::kBind && options.bind)
    for (const auto& [word, rule] : kBindings)
      if (rule == *options.bind)
        return std::string(word);
  if (key == Key::kGpus && options.gpus)
    return *options.gpus == GpuRule::kShared ? "shared" : "own";
  if (key == Key::kNic)
    return options.nic;
  if (key == Key::kTopology)
    return options.topology;
  if (key == Key::kPort && options.port)
    return std::to_string(options.port->low) + '-' + std::to_string(options.port->high);
  if (key == Key::kIface)
    return options.iface;
  if (key == Key::kOmp && options.omp)
    return options.omp->kind == OmpRule::kAuto   ? "auto"
           : options.omp->kind == OmpRule::kKeep ? "keep"
                                                 : std::to_string(options.omp->threads);
  if (key == Key::kNproc && options.nproc)
    return *options.nproc == 0 ? "auto" : std::to_string(*options.nproc);
  if (key == Key::kWait && options.wait_seconds)
    return std::to_string(*options.wait_seconds);
  if (key == Key::kKill && options.kill)
    return *options.kill ? "yes" : "no";
  if (key == Key::kLimits && options.limits)
    return *options.limits == LimitRule::kKeep ? "keep" : "raise";
  if (key == Key::kChecks && options.checks)
    return to_text(*options.checks);
  return std::nullopt;
}

} // namespace dist_train
