// SPDX-License-Identifier: BSD-3-Clause
// The step's store behind c10d's interface, side by side with c10d's own HashStore where both must
// agree.
#include <libstep/step.hpp>
#include <libstep/step_torch.hpp>

#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include <gtest/gtest.h>

namespace dist_train {
namespace {

using std::chrono::milliseconds;

class TorchStore : public testing::Test {
protected:
  void SetUp() override {
    clearenv();
    step = std::make_unique<Step>();
    ours = c10::make_intrusive<StepStore>(step->get());
    peer = c10::make_intrusive<c10d::HashStore>();
  }
  // Runs the same on both; the results must be equal.
  template <typename Use>
  void expect_same(Use use) {
    EXPECT_EQ(use(*ours), use(*peer));
  }

  std::unique_ptr<Step> step;
  c10::intrusive_ptr<StepStore> ours;
  c10::intrusive_ptr<c10d::HashStore> peer;
};

TEST_F(TorchStore, AgreesWithHashStore) {
  expect_same([](c10d::Store& s) {
    s.set("k", "value");
    return s.get_to_str("k");
  });
  expect_same([](c10d::Store& s) { return s.add("n", 5) + s.add("n", -2); });
  expect_same([](c10d::Store& s) { return s.get_to_str("n"); });
  expect_same([](c10d::Store& s) { return s.check({"k", "n"}); });
  expect_same([](c10d::Store& s) { return s.check({"k", "missing"}); });
  expect_same([](c10d::Store& s) { return s.compareSet("c", "", "first"); });
  expect_same([](c10d::Store& s) { return s.compareSet("c", "wrong", "second"); });
  expect_same([](c10d::Store& s) { return s.compareSet("c", "first", "third"); });
  expect_same([](c10d::Store& s) { return s.compareSet("d", "expected", "x"); });
  expect_same([](c10d::Store& s) { return s.deleteKey("c"); });
  expect_same([](c10d::Store& s) { return s.deleteKey("c"); });
  expect_same([](c10d::Store& s) { return s.getNumKeys(); });
  expect_same([](c10d::Store& s) {
    s.append("a", {1, 2});
    s.append("a", {3});
    return s.get("a");
  });
  expect_same([](c10d::Store& s) {
    s.multiSet({"x", "y"}, {{1}, {2, 3}});
    return s.multiGet({"y", "x"});
  });
  expect_same([](c10d::Store& s) {
    s.set("large", std::vector<uint8_t>(100000, 7));
    return s.get("large");
  });
}

TEST_F(TorchStore, WaitsNoLongerThanAsked) {
  ours->setTimeout(milliseconds(30));
  EXPECT_EQ(ours->getTimeout(), milliseconds(30));
  try {
    ours->get("missing");
    FAIL() << "no exception";
  } catch (const c10::DistStoreError& error) {
    const std::string text = error.what_without_backtrace();
    EXPECT_NE(text.find("'missing' was not set within 0.03 s"), std::string::npos) << text;
  }
  EXPECT_THROW(ours->wait({"missing"}, milliseconds(10)), c10::DistStoreError);
  ours->set("here", "");
  ours->wait({"here"});
  EXPECT_THROW(ours->set(std::string(2000, 'k'), ""), c10::DistStoreError);
}

TEST_F(TorchStore, ClonesShareTheStore) {
  const auto clone = ours->clone();
  clone->set("k", "from the clone");
  EXPECT_EQ(ours->get_to_str("k"), "from the clone");
  EXPECT_EQ(clone->getTimeout(), ours->getTimeout());
}

} // namespace
} // namespace dist_train
