// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>

namespace dist_train {

// A JSON string; bytes outside ASCII that are not UTF-8 would be no JSON, so all become escapes of
// the byte's value.
std::string json_text(const std::string& text);

} // namespace dist_train
