// SPDX-License-Identifier: BSD-3-Clause
#include "trainer/tokenizer/tokenizer_parts.h"

namespace dist_train {
namespace {

// GPT-2's expression, which ByteLevel applies when use_regex is set.
constexpr const char* kByteLevelPattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

constexpr int kDeepest = 8; // of nested Sequences
constexpr size_t kMostSteps = 64;

std::optional<SplitBehavior> behavior_of(const std::string& name) {
  constexpr std::pair<const char*, SplitBehavior> kNames[] = {
      {"Removed", SplitBehavior::removed},
      {"Isolated", SplitBehavior::isolated},
      {"MergedWithPrevious", SplitBehavior::merged_with_previous},
      {"MergedWithNext", SplitBehavior::merged_with_next},
      {"Contiguous", SplitBehavior::contiguous},
  };
  for (const auto& [known, behavior] : kNames) {
    if (name == known) {
      return behavior;
    }
  }
  return {};
}

// Collects the steps of nested Sequences in their order.
class Reader {
public:
  Result<void> read(const JsonPlace& place, int depth) {
    const auto type = place.text("type");
    if (!type) {
      return type.error();
    }
    if (byte_level_ || ++steps_ > kMostSteps || depth > kDeepest) {
      return byte_level_ ? place.error("comes after ByteLevel, which is not supported")
                         : place.error("has too many steps");
    }
    if (*type == "Sequence") {
      return sequence(place, depth);
    }
    if (*type == "ByteLevel") {
      return byte_level(place);
    }
    if (*type == "Split") {
      return split(place);
    }
    if (*type == "Digits") {
      return digits(place);
    }
    return Error{place.path + " is of type " + quote(*type) + ", which is not supported",
                 "known are ByteLevel, Split, Digits and Sequence"};
  }

  bool complete() const { return byte_level_; }
  Pretokenizer take() { return std::move(result_); }

private:
  Result<void> sequence(const JsonPlace& place, int depth) {
    const auto* list = place.find("pretokenizers");
    if (!list || !list->is_array()) {
      return place.error("has no list of pretokenizers");
    }
    const JsonPlace steps = place.at("pretokenizers");
    for (size_t i = 0; i < list->size(); ++i) {
      if (auto read_one = read(steps.at(i), depth + 1); !read_one) {
        return read_one;
      }
    }
    return {};
  }

  Result<void> byte_level(const JsonPlace& place) {
    byte_level_ = true;
    const auto prefix = place.flag("add_prefix_space", true);
    const auto use_regex = place.flag("use_regex", true);
    if (!prefix || !use_regex) {
      return prefix ? use_regex.error() : prefix.error();
    }
    if (*prefix) {
      result_.add_prefix_space();
    }
    return *use_regex ? add(Regex::compile(kByteLevelPattern), SplitBehavior::isolated)
                      : Result<void>();
  }

  Result<void> digits(const JsonPlace& place) {
    const auto individual = place.flag("individual_digits", false);
    if (!individual) {
      return individual.error();
    }
    return add(Regex::compile(R"(\p{N})"),
               *individual ? SplitBehavior::isolated : SplitBehavior::contiguous);
  }

  Result<void> split(const JsonPlace& place) {
    const auto name = place.text("behavior");
    const auto invert = place.flag("invert", false);
    if (!name || !invert) {
      return name ? invert.error() : name.error();
    }
    const auto behavior = behavior_of(*name);
    if (!behavior) {
      return place.error("has the unknown behavior " + quote(*name));
    }
    const auto* pattern = place.find("pattern");
    if (!pattern) {
      return place.error("has no pattern");
    }
    for (const char* kind : {"Regex", "String"}) {
      const auto text = place.at("pattern").text(kind);
      if (!text) {
        return text.error();
      }
      if (!text->empty()) {
        auto regex = *kind == 'R' ? Regex::compile(*text) : Regex::literal(*text);
        if (!regex) {
          return Error{place.path + ": " + regex.error().message, regex.error().hint};
        }
        return add(std::move(regex), *behavior, *invert);
      }
    }
    return place.error("has a pattern without Regex or String");
  }

  Result<void> add(Result<Regex> regex, SplitBehavior behavior, bool invert = false) {
    if (!regex) {
      return regex.error();
    }
    result_.add({*std::move(regex), behavior, invert});
    return {};
  }

  Pretokenizer result_;
  bool byte_level_ = false; // seen; what follows would see its characters instead of the text
  size_t steps_ = 0;
};

} // namespace

Result<Pretokenizer> read_pretokenizer(const JsonPlace& place) {
  Reader reader;
  if (auto read = reader.read(place, 0); !read) {
    return read.error();
  }
  if (!reader.complete()) {
    return Error{place.path + " does not end with ByteLevel",
                 "only byte-level BPE tokenizers can be used"};
  }
  return reader.take();
}

} // namespace dist_train
