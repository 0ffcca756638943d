// SPDX-License-Identifier: BSD-3-Clause
// Columns of text for a terminal.
#pragma once

#include <string>
#include <vector>

namespace dist_train {

// The first row holds the titles; a title that begins with '>' (not shown) sets its column to the
// right. Two blanks between columns, none at the end of a line.
std::string table_text(std::vector<std::vector<std::string>> rows);

} // namespace dist_train
