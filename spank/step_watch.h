// SPDX-License-Identifier: BSD-3-Clause
// What srun says about a step that begins, and when: who is missing, what does not fit together,
// the table of ranks. Pure: the roll call and the time in, words out.
#pragma once

#include "libstep/core/options.h"
#include "spank/roll_call.h"

#include <optional>
#include <string>

namespace dist_train {

// Something to say, in this order; empty texts are not said.
struct Remark {
  std::vector<Error> failures; // reasons that the tasks gave, not said before
  std::string text;            // lines for srun's stderr, complete
  std::optional<Error> end;    // why the step has to be ended
};

class StepWatch {
public:
  // `port` is the broker's, which nodes must reach.
  StepWatch(const Options& options, std::uint16_t port);

  // To be asked about once a second and after every report, before that is answered: the words are
  // to be read before anything that a task does because of the answer. `seconds` since the launch.
  Remark look(const RollCall& roll, double seconds);

  // When the step ends: the part that is there of a table that never became complete, and nodes
  // that never came, whose tasks may have run without any of our variables.
  std::string last_words(const RollCall& roll, double seconds);

private:
  std::string table(const RollCall& roll, double seconds) const;
  void compare_nodes(const RollCall& roll, double seconds, Remark& remark);
  void call_for_missing(const RollCall& roll, double seconds, Remark& remark);

  Options options_;
  std::uint16_t port_;
  bool table_due_, comparison_due_, ended_ = false;
  std::size_t nodes_here_ = 0, failures_said_ = 0;
  double last_arrival_ = 0, complete_since_ = -1, next_call_;
};

} // namespace dist_train
