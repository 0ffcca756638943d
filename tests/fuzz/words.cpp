// SPDX-License-Identifier: BSD-3-Clause
// The small readers that the others are made of, and the last few texts that the plugin takes from
// elsewhere: numbers, tokens, endpoints, interface lists, a command line and a slurm.conf.
#include "libstep/core/mode_checks.h"
#include "libstep/core/text.h"
#include "libstep/os/interfaces.h"
#include "libstep/store/socket.h"
#include "spank/broker_messages.h"
#include "spank/srun_line.h"
#include "spank/srun_ports.h"
#include "tests/fuzz/check.h"

using namespace dist_train;
using namespace dist_train::fuzz;

namespace {

void check_text(std::string_view text) {
  for (auto limit : {std::uint64_t{0}, std::uint64_t{65535}, UINT64_MAX})
    if (auto number = parse_number(text, limit)) {
      require(*number <= limit, "a number is within its limit");
      auto plain = std::to_string(*number);
      require(text.ends_with(plain) && text.find_first_not_of('0') >= text.size() - plain.size(),
              "a number is what stands there");
    }
  require(quoted(text).size() <= 4 * 80 + 5 && printable(quoted(text)), "a quotation is harmless");
  std::string joined;
  for (auto part : split(text, ','))
    joined.append(joined.data() == nullptr ? "" : "").append(part).append(",");
  require(text.empty() || joined == std::string(text) + ",", "parts make up the whole");
  (void)nearest(text, {"torch", "verbose", "strategy", "fsdp"});
  if (auto token = parse_token(text))
    require(token_text(*token) == text, "a token's text is the token");
  if (auto place = parse_endpoint(text)) {
    require(place->port != 0 && !place->host.empty(), "an endpoint has a host and a port");
    require(place->host.size() <= 255, "an endpoint's host is short");
  } else {
    require_readable(place.error());
  }
}

void check_interfaces(std::string_view list) {
  static const std::vector<InterfaceAddress> all{{"lo", "127.0.0.1", true},
                                                 {"eth0", "10.0.0.1", false},
                                                 {"ib0", "192.168.7.1", false},
                                                 {"ib0", "fd00::7:1", false}};
  auto chosen = select_interfaces(list, all);
  require(chosen.size() <= all.size(), "no address is chosen twice");
}

void check_command_line(std::string_view text) {
  std::vector<std::string> arguments;
  for (auto argument : split(text, '\n'))
    arguments.emplace_back(argument);
  auto line = read_srun_line(arguments);
  require(line.has_dist_train || line.dist_train.empty(), "no option, no value");
  require(!line.has_dist_train ||
              std::any_of(arguments.begin(), arguments.end(),
                          [&](const std::string& a) { return a.ends_with(line.dist_train); }),
          "the option's value stands on the line");
  require(line.nodes <= 1u << 15 && line.tasks <= 1u << 30,
          "numbers of nodes and tasks are bounded");
  auto size = number_argument(arguments, "--tensor-model-parallel-size");
  require(size == 0 || text.find(std::to_string(size)) != text.npos, "a size stands on the line");
}

void check_conf(std::string_view text) {
  if (auto range = srun_port_range(text)) {
    require(range->low > 0 && range->low <= range->high, "a range runs upwards");
    auto again = srun_port_range("SrunPortRange=" + std::to_string(range->low) + "-" +
                                 std::to_string(range->high));
    require(again == range, "a range that is written out is read the same");
  }
}

} // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  auto text = text_of(data, size);
  check_text(text);
  check_interfaces(text);
  check_command_line(text);
  check_conf(text);
  return 0;
}
