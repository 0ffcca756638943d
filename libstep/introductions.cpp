// SPDX-License-Identifier: BSD-3-Clause
#include "libstep/introductions.h"

#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "libstep/core/text.h"
#include "libstep/identity_sources.h"

namespace dist_train {
namespace {

constexpr std::size_t kSize = 272; // a node's name and a number

std::string introduction(const Identity& identity) {
  std::string text =
      std::to_string(identity.local_rank) + " " + identity.node_name.substr(0, kMaxNodeName);
  text.resize(kSize);
  return text;
}

Result<RankMap> map_of(std::string_view introductions) {
  std::map<std::string, NodeRanks> nodes;
  for (std::uint32_t rank = 0; rank * kSize < introductions.size(); ++rank) {
    auto text = introductions.substr(rank * kSize, kSize);
    text = text.substr(0, text.find('\0'));
    const auto space = text.find(' ');
    const auto local = parse_number(text.substr(0, space), kMaxWorld);
    if (!local || space == text.npos)
      return Error{"rank " + std::to_string(rank) + " introduced itself as " + quoted(text),
                   "run one release of libstep in all ranks"};
    const std::string name(text.substr(space + 1));
    auto& node = nodes[name];
    if (*local != node.ranks.size()) {
      const std::string seen =
          node.ranks.empty() ? "" : " after rank " + std::to_string(node.ranks.back());
      return Error{"rank " + std::to_string(rank) + " on host " + quoted(name) +
                       " has the local rank " + std::to_string(*local) +
                       "; of the ranks there it is number " + std::to_string(node.ranks.size()) +
                       seen,
                   "number the processes of each host from 0, in the order of their ranks, and "
                   "see that no two hosts have one name"};
    }
    node.ranks.push_back(rank);
  }
  std::vector<NodeRanks> named;
  for (auto& [name, node] : nodes)
    named.push_back({name, std::move(node.ranks)});
  return make_rank_map(std::move(named));
}

} // namespace

std::variant<Result<RankMap>, Refusal> introduce_ranks(Session& session, double seconds) {
  Collective request;
  request.number = ++session.collectives;
  request.pattern = Pattern::kGather;
  request.length = kSize;
  request.data = introduction(session.identity);
  request.wait_ms = static_cast<std::int64_t>(seconds * 1000);
  Reply gathered = session.client->call(request, request.wait_ms);
  if (gathered.code != STEP_OK)
    return Refusal{gathered.code, std::move(gathered.error)};
  return map_of(gathered.body);
}

} // namespace dist_train
