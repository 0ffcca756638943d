// SPDX-License-Identifier: BSD-3-Clause
#include "libstep/tools/convert/fields.h"

#include "libstep/core/text.h"

#include <algorithm>

namespace dist_train {
namespace {

using Kind = YamlNode::Kind;

const char* kind_name(Kind kind) {
  switch (kind) {
  case Kind::kNull:
    return "nothing";
  case Kind::kText:
    return "a text";
  case Kind::kBool:
    return "true or false";
  case Kind::kNumber:
    return "a number";
  case Kind::kList:
    return "a list";
  case Kind::kMap:
    return "a map";
  }
  return "?";
}

// In YAML 1.1: 010 is eight.
bool is_octal(const std::string& text) {
  return text.size() > 1 && text[0] == '0' && text.find_first_not_of("0123456789") == text.npos;
}

// A value in one line, as YAML's flow style has it.
std::string flow_text(const YamlNode& node) {
  if (node.kind != Kind::kList && node.kind != Kind::kMap) {
    const bool needs_quotes =
        node.text.empty() ||
        node.text.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQR"
                                    "STUVWXYZ0123456789_-./:=@+%") != node.text.npos;
    return node.kind == Kind::kNull ? "null"
           : needs_quotes           ? quoted(node.text, kMaxYamlBytes * 4)
                                    : node.text;
  }
  std::string inside;
  for (const auto& item : node.items) {
    inside += inside.empty() ? "" : ", ";
    if (node.kind == Kind::kMap) {
      const auto key = quoted(item.key, kMaxYamlBytes * 4);
      inside += key.substr(1, key.size() - 2) + ": ";
    }
    inside += flow_text(item);
  }
  return node.kind == Kind::kList ? "[" + inside + "]" : "{" + inside + "}";
}

} // namespace

const YamlNode* Fields::find(const YamlNode* map, std::string_view name) {
  if (!map)
    return nullptr;
  const auto found = std::find_if(map->items.begin(), map->items.end(),
                                  [&](const auto& item) { return item.key == name; });
  return found == map->items.end() ? nullptr : &*found;
}

void Fields::fail(const YamlNode* where, const std::string& what, std::string hint) {
  if (!error_)
    error_ = where ? yaml_error(file_, where->line, where->column, what, std::move(hint))
                   : Error{file_ + ": " + what, std::move(hint)};
}

const YamlNode* Fields::get(const YamlNode* map, std::string_view name, std::set<Kind> kinds,
                            const char* wanted) {
  const auto* node = find(map, name);
  if (!node)
    return nullptr;
  read(*node);
  if (node->kind == Kind::kNumber && is_octal(node->text))
    fail(node, std::string(name) + " " + quoted(node->text) + " is octal to Kubernetes",
         "write it without the leading 0");
  if (kinds.contains(node->kind))
    return node;
  if (node->kind != Kind::kNull) {
    const bool scalar = node->kind == Kind::kBool || node->kind == Kind::kNumber;
    fail(node,
         std::string(name) + " wants " + wanted + ", not " + kind_name(node->kind) +
             (node->text.empty() ? "" : " (" + quoted(node->text) + ")"),
         scalar && kinds.contains(Kind::kText) ? "put it in quotes" : "");
  }
  return nullptr;
}

const YamlNode* Fields::map(const YamlNode* map, std::string_view name) {
  return get(map, name, {Kind::kMap}, "a map");
}

const YamlNode* Fields::list(const YamlNode* map, std::string_view name) {
  return get(map, name, {Kind::kList}, "a list");
}

std::optional<std::string> Fields::text(const YamlNode* map, std::string_view name) {
  const auto* node = get(map, name, {Kind::kText}, "a text");
  return node ? std::optional(node->text) : std::nullopt;
}

std::optional<std::string> Fields::word(const YamlNode* map, std::string_view name) {
  const auto* node = get(map, name, {Kind::kText, Kind::kNumber}, "a text or a number");
  return node ? std::optional(node->text) : std::nullopt;
}

std::optional<std::uint64_t> Fields::number(const YamlNode* map, std::string_view name,
                                            std::uint64_t limit) {
  const auto* node = get(map, name, {Kind::kNumber}, "a number");
  if (!node)
    return std::nullopt;
  const auto value = parse_number(node->text, limit);
  if (!value)
    fail(node, std::string(name) + " " + quoted(node->text) + " is not a whole number from 0 to " +
                   std::to_string(limit));
  return value;
}

bool Fields::flag(const YamlNode* map, std::string_view name) {
  const auto* node = get(map, name, {Kind::kBool}, "true or false");
  return node && (node->text == "true" || node->text == "True" || node->text == "TRUE");
}

std::vector<std::string> Fields::texts(const YamlNode* map, std::string_view name) {
  std::vector<std::string> words;
  if (const auto* node = list(map, name)) {
    for (const auto& item : node->items) {
      read(item);
      if (item.kind != Kind::kText)
        fail(&item,
             std::string(name) + " wants texts, not " + kind_name(item.kind) +
                 (item.text.empty() ? "" : " (" + quoted(item.text) + ")"),
             "put it in quotes, as Kubernetes wants it too");
      words.push_back(item.text);
    }
  }
  return words;
}

std::vector<const YamlNode*> Fields::maps(const YamlNode* map, std::string_view name) {
  std::vector<const YamlNode*> maps;
  if (const auto* node = list(map, name)) {
    for (const auto& item : node->items) {
      read(item);
      if (item.kind != Kind::kMap)
        fail(&item, std::string(name) + " wants maps, not " + kind_name(item.kind));
      else
        maps.push_back(&item);
    }
  }
  return maps;
}

void Fields::collect(const YamlNode& node, const std::string& path,
                     std::vector<Unread>& out) const {
  if (!read_.contains(&node)) {
    out.push_back({path, node.line, flow_text(node)});
    return;
  }
  std::size_t index = 0;
  for (const auto& item : node.items) {
    const auto key = quoted(item.key, 400);
    collect(item,
            node.kind == Kind::kList
                ? path + "[" + std::to_string(index++) + "]"
                : path + (path.empty() ? "" : ".") + key.substr(1, key.size() - 2),
            out);
  }
}

std::vector<Fields::Unread> Fields::unread(const YamlNode& document) const {
  std::vector<Unread> out;
  for (const auto& item : document.items) {
    const auto key = quoted(item.key, 400);
    collect(item, key.substr(1, key.size() - 2), out);
  }
  return out;
}

} // namespace dist_train
