// SPDX-License-Identifier: BSD-3-Clause
// Fields of a manifest, read by name: remembers which were read, so that what nobody read can be
// told, and the first that is wrong, so that a reader may go on and look once at its end.
#pragma once

#include "libstep/tools/convert/yaml.h"

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace dist_train {

class Fields {
public:
  explicit Fields(std::string file) : file_(std::move(file)) {}

  // A field of `map`, which may be null, as may the answer: then it is not there, is null, or is
  // of another kind, which is the error.
  const YamlNode* map(const YamlNode* map, std::string_view name);
  const YamlNode* list(const YamlNode* map, std::string_view name);
  std::optional<std::string> text(const YamlNode* map, std::string_view name);
  // Text or number, as written.
  std::optional<std::string> word(const YamlNode* map, std::string_view name);
  std::optional<std::uint64_t> number(const YamlNode* map, std::string_view name,
                                      std::uint64_t limit);
  bool flag(const YamlNode* map, std::string_view name);
  // A list of texts; empty if it is not there.
  std::vector<std::string> texts(const YamlNode* map, std::string_view name);
  // A list of maps; empty if it is not there.
  std::vector<const YamlNode*> maps(const YamlNode* map, std::string_view name);

  // The field, whatever its kind, without reading it.
  static const YamlNode* find(const YamlNode* map, std::string_view name);
  void read(const YamlNode& node) { read_.insert(&node); }

  // The first one stays.
  void fail(const YamlNode* where, const std::string& what, std::string hint = {});
  const std::optional<Error>& error() const { return error_; }

  // A field that nobody read, the topmost of its kind: "spec.a[0].b", its line, its value in one
  // line of printable ASCII.
  struct Unread {
    std::string path;
    std::size_t line;
    std::string value;
  };
  std::vector<Unread> unread(const YamlNode& document) const;

private:
  const YamlNode* get(const YamlNode* map, std::string_view name, std::set<YamlNode::Kind> kinds,
                      const char* wanted);
  void collect(const YamlNode& node, const std::string& path, std::vector<Unread>& out) const;

  std::string file_;
  std::set<const YamlNode*> read_;
  std::optional<Error> error_;
};

} // namespace dist_train
