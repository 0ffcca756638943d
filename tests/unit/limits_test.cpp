// SPDX-License-Identifier: BSD-3-Clause
// Limits of this process, and devices in a folder of our making.
#include "libstep/os/limits.h"

#include "libstep/core/node_facts.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <sys/resource.h>

namespace dist_train {
namespace {

namespace fs = std::filesystem;

// A private folder for the test's time.
class Folder {
public:
  Folder() {
    std::string name = (fs::temp_directory_path() / "limits_XXXXXX").string();
    path_ = mkdtemp(name.data());
  }
  ~Folder() { fs::remove_all(path_); }
  void add(const std::string& name) const { fs::create_directory(path_ / name); }
  std::string path() const { return path_.string(); }

private:
  fs::path path_;
};

TEST(Limits, FollowThoseOfTheProcess) {
  rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit lower{100, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &lower), 0);
  EXPECT_EQ(open_files_limit().soft, 100u);
  EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_EQ(open_files_limit().hard,
            before.rlim_max == RLIM_INFINITY ? kUnlimited : before.rlim_max);
  EXPECT_LE(locked_memory_limit().soft, locked_memory_limit().hard);
}

TEST(FilesystemSize, IsTheWholeOfIt) {
  EXPECT_EQ(filesystem_size("/"), fs::space("/").capacity);
  EXPECT_EQ(filesystem_size("/no/such/folder"), 0u);
}

TEST(RdmaDevices, AreSortedAndOnlyNames) {
  Folder folder;
  EXPECT_EQ(rdma_devices(folder.path().c_str()), "");
  EXPECT_EQ(rdma_devices((folder.path() + "/none").c_str()), "");
  for (const char* name : {"mlx5_1", "bnxt_re-0", "mlx5_0", "a,b", "two words", ".hidden"})
    folder.add(name);
  folder.add(std::string(200, 'x'));
  EXPECT_EQ(rdma_devices(folder.path().c_str()), "bnxt_re-0,mlx5_0,mlx5_1");
  for (int i = 0; i < 100; ++i)
    folder.add("rdma" + std::to_string(i));
  EXPECT_LE(rdma_devices(folder.path().c_str()).size(), 64u * 33);
}

} // namespace
} // namespace dist_train
