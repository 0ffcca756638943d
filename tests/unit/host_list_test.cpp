// SPDX-License-Identifier: BSD-3-Clause
#include "libstep/core/host_list.h"

#include <gtest/gtest.h>

namespace dist_train {
namespace {

using Names = std::vector<std::string>;

TEST(HostList, Expands) {
  struct Case {
    const char* text;
    Names names;
  };
  for (const Case& c : {
           Case{"", {}},
           Case{"login", {"login"}},
           Case{"n[01-03,7]", {"n01", "n02", "n03", "n7"}},
           Case{"n[9-11]", {"n9", "n10", "n11"}},
           Case{"n[099-101]x,b", {"n099x", "n100x", "n101x", "b"}},
           Case{"r[1-2]n[1-2]", {"r1n1", "r1n2", "r2n1", "r2n2"}},
           Case{"n[1-2]-ib", {"n1-ib", "n2-ib"}},
           Case{"b,a,b", {"b", "a", "b"}},
       }) {
    auto hosts = expand_host_list(c.text);
    ASSERT_TRUE(hosts) << c.text;
    EXPECT_EQ(*hosts, c.names) << c.text;
  }
}

TEST(HostList, RefusesMalformedAndHuge) {
  for (const char* bad :
       {",", "a,", "a,,b", "n[1-3", "n1-3]", "n[]", "n[3-1]", "n[a]", "n[1-]", "a b", "a;b", "a/b",
        "n[0-65536]", "n[0-999999999]", "n[0-255]m[0-256]", "n[1-65536],m", "a\xff"})
    EXPECT_FALSE(expand_host_list(bad)) << bad;
  EXPECT_FALSE(expand_host_list(std::string(300, 'a')));
  EXPECT_FALSE(
      expand_host_list(std::string(254, 'a') + "[9-10]")); // the second name alone is too long
  EXPECT_EQ(expand_host_list("n[1-65536]")->size(), kMaxHosts);
}

} // namespace
} // namespace dist_train
