// SPDX-License-Identifier: BSD-3-Clause
// The option's grammar from all its sources, and what srun makes of several voices. Input: up to
// four lines, as said by srun's line, by SLURM_DIST_TRAIN, by sbatch's line and by the plugstack.
#include "libstep/core/options.h"
#include "libstep/core/text.h"
#include "spank/decision.h"
#include "tests/fuzz/check.h"

#include <array>

using namespace dist_train;
using namespace dist_train::fuzz;

namespace {

// Two lines: the excerpt, and below it a marker that lies within it or just behind its end.
void require_caret(const Error& error) {
  auto lines = split(error.caret, '\n');
  require(lines.size() == 2, "a caret has two lines");
  require(printable(lines[0]) && printable(lines[1]), "a caret is printable");
  require(lines[0].size() <= 80, "a caret's excerpt fits a terminal");
  auto begin = lines[1].find('^');
  require(begin != std::string_view::npos && begin >= 2, "a caret line has a caret");
  auto end = lines[1].find_first_not_of('~', begin + 1);
  require(end != std::string_view::npos && lines[1][end] == ' ', "advice follows the marker");
  require(end == begin + 1 ? begin <= lines[0].size() : end <= lines[0].size(),
          "the marker lies below the excerpt");
}

std::optional<Options> parse(std::string_view text, OptionSource source) {
  auto options = parse_options(text, source);
  if (options)
    return *std::move(options);
  require_readable(options.error());
  require(text.size() > kMaxOptionText || !options.error().caret.empty(),
          "an error in a text of possible length has a caret");
  if (!options.error().caret.empty())
    require_caret(options.error());
  return std::nullopt;
}

// What srun sends is what the nodes read.
void require_travels(const Options& options) {
  auto text = canonical_text(options);
  require(text.size() <= kMaxOptionText, "the canonical text is not too long");
  auto back = parse_options(text, OptionSource::kResolved);
  require(bool(back) && *back == options, "the canonical text means the same");
  require(canonical_text(*back) == text, "the canonical text is canonical");
}

} // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr std::array kSources{OptionSource::kCommandLine, OptionSource::kEnvironment,
                                OptionSource::kCommandLine, OptionSource::kPlugstack};
  std::array<std::optional<Options>, 4> said;
  std::size_t count = 0;
  for (auto line : split(text_of(data, size), '\n')) {
    if (count == said.size())
      break;
    said[count] = parse(line, kSources[count]);
    if (said[count])
      require_travels(*said[count]);
    ++count;
  }
  auto a = said[0].value_or(Options{}), b = said[1].value_or(Options{}),
       c = said[2].value_or(Options{});
  if (count < 2) // nothing to merge
    return 0;
  require(merge(a, a) == a, "merging a text with itself changes nothing");
  require(merge(a, Options{}) == a && merge(Options{}, a) == a, "silence changes nothing");
  require(merge(a, merge(b, c)) == merge(merge(a, b), c), "merging is associative");
  auto decided = decide({said[0], said[1], said[2], said[3]});
  require(decided.mode.has_value(), "a decision has a mode");
  require_travels(decided);
  return 0;
}
