// SPDX-License-Identifier: BSD-3-Clause
#include "libstep/core/environment.h"
#include "libstep/core/option_words.h"

namespace dist_train {

namespace {

void add_row(std::string& out, std::string left, const char* help) {
  constexpr std::size_t kColumn = 28;
  left.insert(0, "  ");
  left += left.size() < kColumn ? std::string(kColumn - left.size(), ' ')
                                : '\n' + std::string(kColumn, ' ');
  out += left + help + '\n';
}

template <typename Chosen>
void add_words(std::string& out, const char* title, Chosen chosen) {
  out += title;
  for (const auto& row : kWords)
    if (chosen(row))
      add_row(out, std::string(row.word), row.help);
}

void add_variables(std::string& out) {
  constexpr std::size_t kWidth = 96;
  std::size_t column = kWidth;
  auto add = [&](std::string_view name) {
    if (column + 1 + name.size() > kWidth) {
      out += "\n ";
      column = 1;
    }
    out.append(" ").append(name);
    column += 1 + name.size();
  };
  for (auto name : kTaskVariables)
    add(name);
  add("DIST_TRAIN_*");
  out += '\n';
}

} // namespace

std::string options_help() {
  std::string out = "srun|sbatch|salloc --dist-train[=WORD[,WORD...]]\n"
                    "Makes every task of the step a rank of one training world.\n";
  add_words(out, "\nModes:\n", [](const WordRow& row) { return row.key == Key::kMode; });
  add_words(out, "\nStrategies (told to dist-trainer and programs on libstep; others shard as they are written):\n",
            [](const WordRow& row) { return row.key == Key::kStrategy; });
  add_words(out, "\nFlags:\n", [](const WordRow& row) { return row.flag != nullptr; });
  out += "\nKeys (first value is the default, of strategy none; a list in a value uses '+'):\n";
  for (const auto& row : kKeys)
    if (!row.plugstack_only)
      add_row(out, std::string(row.name) + '=' + row.values, row.help);
  out += "\nOn the site's plugstack line only:";
  for (const auto& row : kKeys)
    if (row.plugstack_only)
      out += ' ' + std::string(row.name) + '=' + row.values;
  out += "\n\nVariables of a task (NCCL_*, UCX_* and lists of GPUs where needed):";
  add_variables(out);
  out += "\nsrun's own line beats SLURM_DIST_TRAIN, that beats what sbatch or salloc passed on,\n"
         "and that the site's plugstack line.\n";
  return out;
}

} // namespace dist_train
