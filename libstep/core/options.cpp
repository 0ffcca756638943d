// SPDX-License-Identifier: BSD-3-Clause
#include "libstep/core/options.h"

#include "libstep/core/option_words.h"
#include "libstep/core/text.h"

#include <algorithm>

namespace dist_train {

namespace {

// A part of the text that an error points at.
struct Span {
  std::size_t begin;
  std::size_t length;
};

Error error_at(std::string_view text, Span span, std::string message, const std::string& advice) {
  // Long texts are shown around the place.
  constexpr std::size_t kBefore = 40, kWidth = 72;
  std::size_t from = span.begin > kBefore ? span.begin - kBefore : 0;
  auto shown = std::string(text.substr(from, kWidth));
  std::replace_if(
      shown.begin(), shown.end(), [](char c) { return c < 0x20 || c > 0x7e; }, '?');
  auto marked = std::max<std::size_t>(1, std::min(span.length, from + kWidth - span.begin));
  std::string caret = "  " + shown + "\n  " + std::string(span.begin - from, ' ') + '^' +
                      std::string(marked - 1, '~') + "   " + advice;
  return Error{std::move(message), advice, std::move(caret)};
}

constexpr const char* kSeeHelp = "--dist-train=help lists all";

std::string advice_for(std::string_view word, const std::vector<std::string_view>& candidates) {
  auto near = nearest(word, candidates);
  // What switches elsewhere are set to.
  if (word == "1" || word == "yes" || word == "true")
    near = "on";
  if (word == "0" || word == "no" || word == "false")
    near = "off";
  return (near ? "did you mean '" + std::string(*near) + "'?  " : std::string()) + kSeeHelp;
}

// Name of the thing a bare word sets, as the long form spells it; a flag stands for itself.
std::string_view slot_of(const WordRow& row) { return row.flag ? row.word : name_of(row.key); }

class Parser {
public:
  Parser(std::string_view text, OptionSource source) : text_(text), source_(source) {}

  Result<Options> run() {
    for (std::size_t begin = 0; begin <= text_.size();) {
      auto end = std::min(text_.find(',', begin), text_.size());
      if (auto error = word({begin, end - begin}))
        return *std::move(error);
      begin = end + 1;
    }
    if (options_.nproc && options_.mode && options_.mode != Mode::kTorchrun)
      return error_at(text_, said("nproc"),
                      "'nproc' is of mode torchrun, and this is mode " +
                          quoted(to_text(*options_.mode)),
                      "remove it");
    return options_;
  }

private:
  std::string_view cut(Span span) const { return text_.substr(span.begin, span.length); }

  std::optional<Error> word(Span span) {
    auto text = cut(span);
    if (text.empty())
      return error_at(text_, span, "an empty word in " + quoted(text_), "remove the comma");
    auto equals = text.find('=');
    if (equals != text.npos)
      return key_value({span.begin, equals}, {span.begin + equals + 1, span.length - equals - 1});
    for (const auto& row : kWords)
      if (row.word == text)
        return bare_word(row, span);
    for (const auto& row : kKeys)
      if (row.name == text)
        return error_at(text_, span, quoted(text) + " needs a value",
                        "write " + std::string(row.name) + "=" + row.values);
    return error_at(text_, span, "unknown word " + quoted(text),
                    advice_for(text, words_and_keys()));
  }

  std::optional<Error> bare_word(const WordRow& row, Span span) {
    if (source_ == OptionSource::kPlugstack && row.key == Key::kMode)
      return error_at(text_, span, "a mode on the plugstack line: " + quoted(cut(span)),
                      "write default=" + std::string(row.word));
    if (auto error = once(slot_of(row), span))
      return error;
    return set_word(row, span);
  }

  std::optional<Error> key_value(Span key_span, Span value_span) {
    auto key = cut(key_span);
    const auto* row =
        std::find_if(kKeys.begin(), kKeys.end(), [&](const KeyRow& r) { return r.name == key; });
    if (row != kKeys.end() && !may_stand(*row))
      return error_at(text_, key_span, quoted(key) + " is a word of the site's plugstack line only",
                      "remove it");
    if (row == kKeys.end())
      return error_at(text_, key_span, "unknown key " + quoted(key),
                      advice_for(key, words_and_keys()));
    if (auto error = once(row->key == Key::kDefault ? "mode" : row->name, key_span))
      return error;
    auto value = cut(value_span);
    Key word_key = row->key == Key::kDefault ? Key::kMode : row->key;
    if (word_key == Key::kMode || word_key == Key::kStrategy) {
      std::vector<std::string_view> possible;
      for (const auto& word : kWords) {
        if (word.key != word_key || (row->key == Key::kDefault && !may_be_default(word.mode)))
          continue;
        if (word.word == value)
          return set_word(word, value_span);
        possible.push_back(word.word);
      }
      return error_at(text_, value_span,
                      "unknown value " + quoted(value) + " of " + std::string(row->name),
                      advice_for(value, possible));
    }
    if (!set_value(options_, row->key, value))
      return error_at(text_, value_span,
                      "bad value " + quoted(value) + " of " + std::string(row->name),
                      "possible: " + std::string(row->values) + row->rule);
    return std::nullopt;
  }

  std::optional<Error> set_word(const WordRow& row, Span span) {
    bool one_command =
        row.key == Key::kDryRun || (row.key == Key::kMode && row.mode == Mode::kHelp);
    if (one_command &&
        (source_ == OptionSource::kEnvironment || source_ == OptionSource::kPlugstack))
      return error_at(text_, span, quoted(row.word) + " counts on a command line only",
                      "remove it");
    if (row.key == Key::kMode)
      options_.mode = row.mode;
    else if (row.key == Key::kStrategy)
      options_.strategy = row.strategy;
    else
      options_.*row.flag = true;
    return std::nullopt;
  }

  // For steps that say nothing, so it must suit any that users may start.
  static bool may_be_default(Mode mode) { return mode == Mode::kTorch || mode == Mode::kOff; }

  // Every thing may be said once: 'fsdp,fsdp' is a slip, 'fsdp,ddp' a contradiction.
  std::optional<Error> once(std::string_view slot, Span span) {
    for (const auto& [said_slot, said] : said_) {
      if (said_slot != slot)
        continue;
      bool same = cut(said) == cut(span);
      return error_at(text_, span,
                      same ? quoted(cut(span)) + " is there twice"
                           : quoted(cut(span)) + " contradicts " + quoted(cut(said)),
                      same ? "say it once" : "say one " + std::string(slot) + " only");
    }
    said_.emplace_back(slot, span);
    return std::nullopt;
  }

  // Where a thing was said that has been.
  Span said(std::string_view slot) const {
    for (const auto& [said_slot, span] : said_)
      if (said_slot == slot)
        return span;
    return {0, 0};
  }

  bool may_stand(const KeyRow& row) const {
    return !row.plugstack_only || source_ == OptionSource::kPlugstack ||
           (source_ == OptionSource::kResolved && row.key != Key::kDefault);
  }

  std::vector<std::string_view> words_and_keys() const {
    std::vector<std::string_view> all;
    for (const auto& row : kWords)
      all.push_back(row.word);
    for (const auto& row : kKeys)
      if (may_stand(row))
        all.push_back(row.name);
    return all;
  }

  std::string_view text_;
  OptionSource source_;
  Options options_;
  std::vector<std::pair<std::string_view, Span>> said_;
};

bool in_alphabet(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
         std::string_view("._:+^=,/%-").find(c) != std::string_view::npos;
}

template <typename T>
std::optional<T> first_of(const std::optional<T>& over, const std::optional<T>& under) {
  return over ? over : under;
}

} // namespace

Result<Options> parse_options(std::string_view text, OptionSource source) {
  if (text.empty() || text == "(null)")
    return Options{};
  if (text.size() > kMaxOptionText)
    return Error{"an option text of " + std::to_string(text.size()) + " bytes: " + quoted(text, 40),
                 "at most " + std::to_string(kMaxOptionText) + " are taken"};
  for (std::size_t i = 0; i < text.size(); ++i)
    if (!in_alphabet(text[i]))
      return error_at(text, {i, 1},
                      "character " + quoted(text.substr(i, 1)) + " is not possible here", kSeeHelp);
  return Parser(text, source).run();
}

std::string canonical_text(const Options& options) {
  std::string text;
  auto add = [&](const std::string& word) { text += (text.empty() ? "" : ",") + word; };
  if (options.mode)
    add(to_text(*options.mode));
  if (options.strategy)
    add(to_text(*options.strategy));
  for (const auto& row : kWords)
    if (row.flag && (options.*row.flag).value_or(false))
      add(std::string(row.word));
  for (const auto& row : kKeys)
    if (auto value = value_text(options, row.key))
      add(std::string(row.name) + '=' + *value);
  return text;
}

Options merge(const Options& over, const Options& under) {
  Options merged;
  merged.mode = first_of(over.mode, under.mode);
  merged.strategy = first_of(over.strategy, under.strategy);
  for (const auto& row : kWords)
    if (row.flag)
      merged.*row.flag = first_of(over.*row.flag, under.*row.flag);
  merged.bind = first_of(over.bind, under.bind);
  merged.gpus = first_of(over.gpus, under.gpus);
  merged.nic = first_of(over.nic, under.nic);
  merged.topology = first_of(over.topology, under.topology);
  merged.env = first_of(over.env, under.env);
  merged.port = first_of(over.port, under.port);
  merged.iface = first_of(over.iface, under.iface);
  merged.omp = first_of(over.omp, under.omp);
  merged.nproc = first_of(over.nproc, under.nproc);
  merged.wait_seconds = first_of(over.wait_seconds, under.wait_seconds);
  merged.kill = first_of(over.kill, under.kill);
  merged.limits = first_of(over.limits, under.limits);
  merged.checks = first_of(over.checks, under.checks);
  return merged;
}

bool names_interfaces(const Options& options) {
  return options.iface && *options.iface != "auto" && *options.iface != "none";
}

bool is_on(const Options& options) {
  return options.mode && *options.mode != Mode::kOff && *options.mode != Mode::kHelp;
}

bool launches_ranks(Mode mode) { return mode == Mode::kTorchrun || mode == Mode::kRay; }

const char* to_text(Mode mode) {
  for (const auto& row : kWords)
    if (row.key == Key::kMode && row.mode == mode)
      return row.word.data(); // a literal
  return "?";
}

const char* to_text(Strategy strategy) {
  for (const auto& row : kWords)
    if (row.key == Key::kStrategy && row.strategy == strategy)
      return row.word.data();
  return "?";
}

std::optional<Mode> mode_of(std::string_view word) {
  for (const auto& row : kWords)
    if (row.key == Key::kMode && row.word == word)
      return row.mode;
  return std::nullopt;
}

std::optional<Strategy> strategy_of(std::string_view word) {
  for (const auto& row : kWords)
    if (row.key == Key::kStrategy && row.word == word)
      return row.strategy;
  return std::nullopt;
}

} // namespace dist_train
