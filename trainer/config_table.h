// SPDX-License-Identifier: BSD-3-Clause
// The one table of the trainer's options, from which parsing, checks, --help and the print-out
// follow. Defaults are those of struct Config.
#pragma once

#include "trainer/config.h"

#include <limits>
#include <span>
#include <string_view>
#include <variant>
#include <vector>

namespace dist_train {

struct ConfigOption {
  using Member =
      std::variant<std::string Config::*, int64_t Config::*, double Config::*, bool Config::*>;
  const char* name;
  Member member;
  const char* help;
  const char* heading = nullptr; // opens a group in --help
  bool required = false;
  std::vector<std::string> choices = {};                   // of a string; empty: any
  double least = -std::numeric_limits<double>::infinity(); // of a number, inclusive
  double most = std::numeric_limits<double>::infinity();
  bool least_excluded = false; // the value must be above least
  bool most_excluded = false;  // the value must be below most
};

std::span<const ConfigOption> config_options();
const ConfigOption* find_config_option(std::string_view name); // nullptr: no such option

// "an integer, at least 1", "one of linear, cosine", "true or false": what a value must be.
std::string describe_value(const ConfigOption&);

} // namespace dist_train
