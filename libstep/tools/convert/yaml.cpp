// SPDX-License-Identifier: BSD-3-Clause
#include "libstep/tools/convert/yaml.h"

#include "libstep/core/text.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <sstream>
#include <stdexcept>

namespace dist_train {
namespace {

using Kind = YamlNode::Kind;

constexpr std::size_t kMaxNodes = 20'000;
constexpr std::size_t kMaxTextBytes = 4 * kMaxYamlBytes; // aliases can make many of few
constexpr std::size_t kMaxDepth = 100;

// What leaves the parser's events; the place is in the text's own counting, from 0.
struct Refusal : std::runtime_error {
  Refusal(const YAML::Mark& where, const std::string& what)
      : std::runtime_error(what), mark(where) {}
  YAML::Mark mark;
};

// Words and numbers of YAML 1.1, which is what Kubernetes reads.
Kind plain_kind(const std::string& text) {
  static constexpr std::string_view kWords[] = {"true", "True", "TRUE", "false", "False", "FALSE",
                                                "yes",  "Yes",  "YES",  "no",    "No",    "NO",
                                                "on",   "On",   "ON",   "off",   "Off",   "OFF"};
  if (std::find(std::begin(kWords), std::end(kWords), text) != std::end(kWords))
    return Kind::kBool;
  const auto digit = text.find_first_not_of("+-.");
  if (digit == text.npos || digit > 2 || text[digit] < '0' || text[digit] > '9')
    return text == ".inf" || text == "-.inf" || text == ".nan" ? Kind::kNumber : Kind::kText;
  char* end = nullptr;
  std::strtod(text.c_str(), &end);
  const bool octal = text.starts_with("0o") && text.size() > 2 &&
                     text.find_first_not_of("01234567", 2) == text.npos;
  return *end == '\0' || octal ? Kind::kNumber : Kind::kText;
}

// Builds values from the parser's events, so that an alias is a copy that is counted.
class Builder : public YAML::EventHandler {
public:
  std::vector<YamlNode> documents;

  void OnDocumentStart(const YAML::Mark&) override { anchors_.clear(); }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    add(mark, node(mark, Kind::kNull), anchor);
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const auto found = anchors_.find(anchor);
    if (found == anchors_.end())
      throw Refusal(mark, "an alias of the value that it stands in");
    count(mark, found->second);
    if (open_.size() + depth(found->second) > kMaxDepth)
      throw Refusal(mark, "nested too deeply");
    put(mark, found->second, 0);
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    if (value.find('\0') != value.npos)
      throw Refusal(mark, "a NUL character inside a text");
    auto scalar = node(mark, tag == "?" ? plain_kind(value) : Kind::kText);
    check_tag(mark, tag, "tag:yaml.org,2002:str");
    scalar.text = value;
    add(mark, std::move(scalar), anchor);
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    check_tag(mark, tag, "tag:yaml.org,2002:seq");
    open(mark, Kind::kList, anchor);
  }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    check_tag(mark, tag, "tag:yaml.org,2002:map");
    open(mark, Kind::kMap, anchor);
  }
  void OnSequenceEnd() override { close(); }
  void OnMapEnd() override { close(); }

private:
  struct Open {
    YamlNode node;
    YAML::Mark mark;
    YAML::anchor_t anchor = 0;
    bool has_key = false; // a map's, whose value comes next
    std::string key = {};
    std::vector<YamlNode> merged = {}; // maps under <<
  };

  static void check_tag(const YAML::Mark& mark, const std::string& tag, std::string_view own) {
    if (!tag.empty() && tag != "?" && tag != "!" && tag != own)
      throw Refusal(mark, "the tag " + quoted(tag) + " is not known here");
  }

  static YamlNode node(const YAML::Mark& mark, Kind kind) {
    return {
        .kind = kind, .line = std::size_t(mark.line) + 1, .column = std::size_t(mark.column) + 1};
  }
  static std::size_t depth(const YamlNode& tree) {
    std::size_t most = 0;
    for (const auto& item : tree.items)
      most = std::max(most, depth(item));
    return most + 1;
  }
  static const YamlNode* child(const YamlNode& map, const std::string& key) {
    const auto found = std::find_if(map.items.begin(), map.items.end(),
                                    [&](const auto& item) { return item.key == key; });
    return found == map.items.end() ? nullptr : &*found;
  }

  void count(const YAML::Mark& mark, const YamlNode& tree) {
    bytes_ += tree.key.size() + tree.text.size();
    if (++nodes_ > kMaxNodes)
      throw Refusal(mark, "more than " + std::to_string(kMaxNodes) + " values, aliases counted");
    if (bytes_ > kMaxTextBytes)
      throw Refusal(mark, "more than " + std::to_string(kMaxTextBytes >> 20) +
                              " MiB of text, aliases counted");
    for (const auto& item : tree.items)
      count(mark, item);
  }

  void open(const YAML::Mark& mark, Kind kind, YAML::anchor_t anchor) {
    count(mark, {});
    if (open_.size() >= kMaxDepth)
      throw Refusal(mark, "nested too deeply");
    if (!open_.empty() && open_.back().node.kind == Kind::kMap && !open_.back().has_key)
      throw Refusal(mark, "a key must be a text");
    open_.push_back({.node = node(mark, kind), .mark = mark, .anchor = anchor});
  }

  void close() {
    auto done = std::move(open_.back());
    open_.pop_back();
    for (auto& map : done.merged)
      for (auto& item : map.items)
        if (!child(done.node, item.key))
          done.node.items.push_back(std::move(item));
    put(done.mark, std::move(done.node), done.anchor);
  }

  void add(const YAML::Mark& mark, YamlNode value, YAML::anchor_t anchor) {
    count(mark, value);
    put(mark, std::move(value), anchor);
  }

  void put(const YAML::Mark& mark, YamlNode value, YAML::anchor_t anchor) {
    if (anchor != 0)
      anchors_[anchor] = value;
    if (open_.empty()) {
      if (value.kind != Kind::kNull)
        documents.push_back(std::move(value));
      return;
    }
    auto& parent = open_.back();
    if (parent.node.kind == Kind::kList) {
      parent.node.items.push_back(std::move(value));
    } else if (!parent.has_key) {
      if (value.kind == Kind::kList || value.kind == Kind::kMap || value.kind == Kind::kNull)
        throw Refusal(mark, "a key must be a text");
      if (child(parent.node, value.text))
        throw Refusal(mark, "the key " + quoted(value.text) + " comes twice in one map");
      parent.key = value.text;
      parent.has_key = true;
    } else if (parent.key == "<<") {
      parent.has_key = false;
      merge(mark, parent, std::move(value));
    } else {
      parent.has_key = false;
      value.key = parent.key;
      parent.node.items.push_back(std::move(value));
    }
  }

  static void merge(const YAML::Mark& mark, Open& parent, YamlNode value) {
    if (value.kind == Kind::kMap) {
      parent.merged.push_back(std::move(value));
      return;
    }
    if (value.kind != Kind::kList)
      throw Refusal(mark, "<< merges a map or a list of maps");
    for (auto& item : value.items)
      merge(mark, parent, std::move(item));
  }

  std::vector<Open> open_;
  std::map<YAML::anchor_t, YamlNode> anchors_;
  std::size_t nodes_ = 0, bytes_ = 0;
};

// Bytes of the UTF-8 character that begins here, 0 if there is none. Overlong forms and
// surrogates are none.
std::size_t utf8_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const std::size_t length = byte(0) < 0x80   ? 1
                             : byte(0) < 0xc2 ? 0
                             : byte(0) < 0xe0 ? 2
                             : byte(0) < 0xf0 ? 3
                             : byte(0) < 0xf5 ? 4
                                              : 0;
  if (length > text.size())
    return 0;
  for (std::size_t i = 1; i < length; ++i)
    if ((byte(i) & 0xc0) != 0x80)
      return 0;
  const bool bad = (byte(0) == 0xe0 && byte(1) < 0xa0) || (byte(0) == 0xed && byte(1) > 0x9f) ||
                   (byte(0) == 0xf0 && byte(1) < 0x90) || (byte(0) == 0xf4 && byte(1) > 0x8f);
  return bad ? 0 : length;
}

// Whether it can be YAML at all; the library would put replacement characters for what is not.
Result<void> check_characters(std::string_view text, const std::string& file) {
  std::size_t line = 1, column = 1;
  for (std::size_t i = 0; i < text.size();) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const auto length = utf8_length(text.substr(i));
    if (length == 0)
      return yaml_error(file, line, column, "not UTF-8: byte " + quoted(text.substr(i, 1)));
    if ((byte < 0x20 && byte != '\t' && byte != '\n' && byte != '\r') || byte == 0x7f)
      return yaml_error(file, line, column,
                        "a control character, " + quoted(text.substr(i, 1)) + ": not a YAML file");
    i += length;
    column = byte == '\n' ? 1 : column + 1;
    line += byte == '\n';
  }
  return {};
}

} // namespace

Result<std::vector<YamlNode>> read_yaml(std::string_view text, const std::string& file) {
  if (text.size() > kMaxYamlBytes)
    return Error{file + ": more than " + std::to_string(kMaxYamlBytes >> 20) +
                 " MiB: not a job's manifest"};
  if (auto readable = check_characters(text, file); !readable)
    return readable.error();
  Builder builder;
  const auto at = [&](const YAML::Mark& mark, const std::string& what) {
    return yaml_error(file, std::size_t(std::max(0, mark.line)) + 1,
                      std::size_t(std::max(0, mark.column)) + 1, what);
  };
  try {
    std::istringstream stream{std::string(text)};
    YAML::Parser parser(stream);
    while (parser.HandleNextDocument(builder))
      ;
  } catch (const Refusal& refusal) {
    return at(refusal.mark, refusal.what());
  } catch (const YAML::Exception& error) {
    const auto message = quoted(error.msg, 200); // may quote the text
    return at(error.mark, message.substr(1, message.size() - 2));
  }
  return std::move(builder.documents);
}

} // namespace dist_train
