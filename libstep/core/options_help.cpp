// SPDX-License-Identifier: BSD-3-Clause
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

} // namespace

std::string options_help() {
  std::string out = "srun|sbatch|salloc --dist-train[=WORD[,WORD...]]\n"
                    "Makes every task of the step a rank of one training world.\n";
  add_words(out, "\nModes:\n", [](const WordRow& row) { return row.key == Key::kMode; });
  add_words(out, "\nStrategies (for libstep's users and dist-trainer):\n",
            [](const WordRow& row) { return row.key == Key::kStrategy; });
  add_words(out, "\nFlags:\n", [](const WordRow& row) { return row.flag != nullptr; });
  out += "\nKeys (first value is the default; a list in a value uses '+'):\n";
  for (const auto& row : kKeys)
    if (!row.plugstack_only)
      add_row(out, std::string(row.name) + '=' + row.values, row.help);
  out += "\nOn the site's plugstack line only:";
  for (const auto& row : kKeys)
    if (row.plugstack_only)
      out += ' ' + std::string(row.name) + '=' + row.values;
  out += "\n\nVariables of each task:\n"
         "  RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE NODE_RANK GROUP_RANK GROUP_WORLD_SIZE\n"
         "  ROLE_RANK ROLE_WORLD_SIZE ROLE_NAME MASTER_ADDR MASTER_PORT OMP_NUM_THREADS\n"
         "  GLOO_SOCKET_IFNAME TP_SOCKET_IFNAME JAX_COORDINATOR_ADDRESS JAX_LOCAL_DEVICE_IDS\n"
         "  CUDA_DEVICE_ORDER UCX_NET_DEVICES, and NCCL_IB_HCA NCCL_SOCKET_IFNAME where needed\n"
         "  DIST_TRAIN_*\n"
         "\nsrun's own line beats SLURM_DIST_TRAIN, that beats what sbatch or salloc passed on,\n"
         "and that the site's plugstack line.\n";
  return out;
}

} // namespace dist_train
