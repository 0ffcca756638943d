// SPDX-License-Identifier: BSD-3-Clause
#include "trainer/safetensors.h"
#include "trainer/safetensors_header.h"
#include "trainer/text_place.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <set>
#include <unistd.h>

namespace dist_train {

struct TensorWriter::State {
  std::string path;
  std::string temporary;
  int fd = -1;
  uint64_t left = 0; // bytes of tensors still to come
  bool renamed = false;

  Error failed(const std::string& what) const {
    return {temporary + ": cannot " + what + ": " + std::strerror(errno),
            "the model was not exported; check space and permissions of the directory"};
  }

  Result<void> write_all(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const ssize_t written = ::write(fd, bytes.data(), bytes.size());
      if (written < 0 && errno == EINTR) {
        continue;
      }
      if (written < 0) {
        return failed("write");
      }
      bytes = bytes.subspan(size_t(written));
    }
    return {};
  }

  ~State() {
    if (fd >= 0) {
      close(fd);
    }
    if (!temporary.empty() && !renamed) {
      unlink(temporary.c_str());
    }
  }
};

TensorWriter::TensorWriter(std::unique_ptr<State> state) : state_(std::move(state)) {}
TensorWriter::TensorWriter(TensorWriter&&) noexcept = default;
TensorWriter::~TensorWriter() = default;

Result<TensorWriter> TensorWriter::create(const std::string& path,
                                          const std::vector<TensorSpec>& specs) {
  auto state = std::make_unique<State>();
  std::set<std::string> names;
  for (const auto& spec : specs) {
    const auto bytes = tensor_bytes(spec.dtype, spec.shape);
    if (!bytes || !names.insert(spec.name).second || first_not_utf8(spec.name)) {
      return Error{path + ": cannot hold tensor " + quote(spec.name) +
                       ": its name is repeated or not UTF-8, or its shape is impossible",
                   "this is a fault of the program"};
    }
    state->left += *bytes;
  }
  state->path = path;
  const std::string temporary = path + ".partial-" + std::to_string(getpid());
  state->fd =
      ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0666);
  if (state->fd < 0) {
    return Error{temporary + ": cannot create: " + std::strerror(errno),
                 "check that the directory exists and may be written to"};
  }
  state->temporary = temporary;
  const std::string header = make_tensor_header(specs);
  if (auto written = state->write_all(std::as_bytes(std::span(header))); !written) {
    return written.error();
  }
  return TensorWriter(std::move(state));
}

Result<void> TensorWriter::append(std::span<const std::byte> bytes) {
  if (bytes.size() > state_->left) {
    return Error{state_->path + ": " + std::to_string(bytes.size()) +
                     " bytes to append, but only " + std::to_string(state_->left) +
                     " are left of the tensors announced",
                 "this is a fault of the program"};
  }
  state_->left -= bytes.size();
  return state_->write_all(bytes);
}

Result<void> TensorWriter::finish() {
  State& s = *state_;
  if (s.left != 0) {
    return Error{s.path + ": " + std::to_string(s.left) + " bytes of tensors were not appended",
                 "this is a fault of the program"};
  }
  if (fsync(s.fd) != 0) {
    return s.failed("sync");
  }
  if (close(std::exchange(s.fd, -1)) != 0) {
    return s.failed("close");
  }
  if (rename(s.temporary.c_str(), s.path.c_str()) != 0) {
    return s.failed("rename to " + s.path);
  }
  s.renamed = true;
  // The new name itself must survive a crash; file systems that cannot sync a directory say so
  // with an error that changes nothing.
  const size_t slash = s.path.rfind('/');
  const std::string directory = slash == std::string::npos ? "." : s.path.substr(0, slash + 1);
  const int fd = ::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd >= 0) {
    fsync(fd);
    close(fd);
  }
  return {};
}

} // namespace dist_train
