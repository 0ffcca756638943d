// SPDX-License-Identifier: BSD-3-Clause
// A private folder for a test's files, removed at the end.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <string_view>

namespace dist_train {

class TempFolder {
public:
  TempFolder() {
    std::string pattern = std::filesystem::temp_directory_path() / "dist-train-XXXXXX";
    if (!mkdtemp(pattern.data())) {
      throw std::runtime_error("mkdtemp " + pattern);
    }
    path_ = pattern;
  }
  ~TempFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;

  const std::string& path() const { return path_; }
  // Writes a file and returns its path.
  std::string write(const std::string& name, std::string_view content) const {
    const std::string path = path_ + "/" + name;
    std::ofstream out(path, std::ios::binary);
    out.write(content.data(), std::streamsize(content.size()));
    if (!out.flush()) {
      throw std::runtime_error("write " + path);
    }
    return path;
  }

private:
  std::string path_;
};

} // namespace dist_train
