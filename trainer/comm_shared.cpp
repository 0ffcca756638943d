// SPDX-License-Identifier: BSD-3-Clause
// Collectives of ranks that see each other's memory. A buffer() lies in its rank's arena, so what a
// rank sends is read by the others where it lies: nothing is copied. For a gather, the parts of all
// arenas are mapped one behind the other.
//
// The calls of all ranks have the same numbers. A rank publishes how many it has begun (their
// inputs are ready) and how many it has finished (it has read the inputs of the others). Calls
// finish in their order: when the inputs of one are ready, so are those of all before. While a rank
// waits for others it goes on finishing what it can, so none waits for one that waits for it.
#include "trainer/comm.h"

#include "trainer/arena.h"
#include "trainer/layout.h"
#include "trainer/ops.h"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <deque>
#include <stdexcept>
#include <thread>
#include <vector>

namespace dist_train {
namespace {

constexpr size_t kMostValues = 128;
constexpr int kSpins = 2000; // about 20 us before a rank sleeps

// The first page of an arena; the others of the node read and ring here.
struct Control {
  std::atomic<uint32_t> begun;
  std::atomic<uint32_t> finished;
  std::atomic<uint32_t> bell;     // changes whenever another rank has begun or finished a call
  std::atomic<uint32_t> sleeping; // its rank waits for the bell
  double values[2][kMostValues];  // of an all_reduce(), by turns
};
static_assert(sizeof(Control) < 4096 - 16 && std::atomic<uint32_t>::is_always_lock_free);

void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  std::this_thread::yield();
#endif
}

class SharedMemory : public Comm {
public:
  SharedMemory(std::vector<Arena> arenas, const Group& group)
      : Comm(group.rank, group.world_size, at::kCPU), arenas_(std::move(arenas)),
        seconds_(std::chrono::duration<double>(group.timeout).count()) {}

  std::string name() const override { return "shared memory"; }

  at::Tensor buffer(int64_t size, at::ScalarType type) override {
    const size_t bytes = size_t(size) * at::elementSize(type);
    if (bytes > arenas_[0].size() - used_)
      throw std::runtime_error("the model needs more shared memory than this machine has");
    const size_t offset = std::exchange(used_, (used_ + bytes + kArenaAlignment - 1) /
                                                   kArenaAlignment * kArenaAlignment);
    return tensor(rank(), offset, size, type);
  }

  at::Tensor whole(const at::Tensor& part) override {
    auto joined = Joined::map(arenas_, offset_of(part), part.nbytes());
    if (!joined)
      throw std::runtime_error(joined.error().message);
    joined_.push_back(*std::move(joined));
    return at::from_blob(joined_.back().data(), {part.numel() * world_size()}, part.options());
  }

  Pending all_gather(at::Tensor, at::Tensor) override { // only waits for the parts
    return begin([] {});
  }

  at::Tensor reduction_scratch(int64_t, at::ScalarType) const override { return {}; }

  Pending reduce_scatter(at::Tensor in, at::Tensor, at::Tensor sum, bool accumulate) override {
    const uint32_t call = calls_;
    auto done = begin([this, in, sum, accumulate]() mutable {
      std::vector<at::Tensor> parts;
      for (int r = 0; r < world_size(); ++r)
        parts.push_back(seen(r, in).narrow(0, rank() * sum.numel(), sum.numel()));
      sum_parts(parts, sum, accumulate);
    });
    return Pending([this, done, call]() mutable {
      done.wait();
      wait_until([&] { return all(&Control::finished, call); });
    });
  }

  void all_reduce(at::Tensor tensor) override {
    const auto values = tensor.to(at::kDouble).contiguous();
    const auto count = size_t(values.numel());
    if (count > kMostValues)
      throw std::logic_error("all_reduce() of shared memory is for a few values");
    const uint32_t call = calls_;
    wait_until([&] { return pending_.empty(); });
    const int turn = turn_ ^= 1;
    std::copy_n(values.const_data_ptr<double>(), count, control(rank()).values[turn]);
    auto sum = at::zeros_like(values);
    begin([&] {
      for (int r = 0; r < world_size(); ++r)
        for (size_t i = 0; i < count; ++i)
          sum.mutable_data_ptr<double>()[i] += control(r).values[turn][i];
    });
    wait_until([&] { return int32_t(finished_ - call) > 0; });
    tensor.copy_(sum.view(tensor.sizes()));
  }

private:
  Control& control(int rank) const {
    return *reinterpret_cast<Control*>(arenas_[size_t(rank)].data());
  }

  at::Tensor tensor(int rank, size_t offset, int64_t size, at::ScalarType type) const {
    return at::from_blob(arenas_[size_t(rank)].data() + offset, {size}, type);
  }

  size_t offset_of(const at::Tensor& own) const {
    return size_t(static_cast<std::byte*>(own.data_ptr()) - arenas_[size_t(rank())].data());
  }

  // The same buffer of another rank.
  at::Tensor seen(int rank, const at::Tensor& own) const {
    return tensor(rank, offset_of(own), own.numel(), own.scalar_type());
  }

  // Every rank's number of calls is beyond `call`.
  bool all(std::atomic<uint32_t> Control::*number, uint32_t call) const {
    for (int r = 0; r < world_size(); ++r)
      if (int32_t((control(r).*number).load(std::memory_order_acquire) - call) <= 0)
        return false;
    return true;
  }

  void ring() {
    for (int r = 0; r < world_size(); ++r)
      if (r != rank()) {
        Control& other = control(r);
        other.bell.fetch_add(1);
        if (other.sleeping.load())
          wake_all(reinterpret_cast<uint32_t*>(&other.bell));
      }
  }

  // Finishes each call in turn whose inputs are there.
  void progress() {
    while (!pending_.empty() && all(&Control::begun, finished_)) {
      pending_.front()();
      pending_.pop_front();
      control(rank()).finished.store(++finished_, std::memory_order_release);
      ring();
    }
  }

  Pending begin(std::function<void()> finish) {
    const uint32_t call = calls_++;
    pending_.push_back(std::move(finish));
    control(rank()).begun.store(calls_, std::memory_order_release);
    ring();
    progress();
    return Pending([this, call] { wait_until([&] { return int32_t(finished_ - call) > 0; }); });
  }

  template <typename Condition>
  void wait_until(Condition condition) {
    const auto deadline =
        std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds_);
    Control& own = control(rank());
    for (int spins = 0;; ++spins) {
      const uint32_t heard = own.bell.load();
      progress();
      if (condition())
        return;
      if (spins < kSpins) {
        relax();
        continue;
      }
      const std::chrono::duration<double> left = deadline - std::chrono::steady_clock::now();
      if (left.count() <= 0)
        throw std::runtime_error("a rank of this node did not take part in a collective within " +
                                 std::to_string(int64_t(seconds_)) + " s");
      own.sleeping.store(
          1); // before the kernel compares the bell; the others look after ringing it
      wait_while(reinterpret_cast<uint32_t*>(&own.bell), heard, left.count());
      own.sleeping.store(0);
    }
  }

  std::vector<Arena> arenas_; // by rank
  std::vector<Joined> joined_;
  double seconds_;
  size_t used_ = kArenaAlignment;
  uint32_t calls_ = 0;
  uint32_t finished_ = 0;
  int turn_ = 0;
  std::deque<std::function<void()>> pending_;
};

std::vector<uint8_t> bytes_of(const std::string& text) { return {text.begin(), text.end()}; }

std::string key_of(const char* what, int rank) {
  return std::string("dist-trainer/") + what + "/" + std::to_string(rank);
}

// What every rank says, by rank.
std::vector<std::string> exchange(const Group& group, const char* what, const std::string& mine) {
  group.store->set(key_of(what, group.rank), bytes_of(mine));
  std::vector<std::string> all;
  for (int rank = 0; rank < group.world_size; ++rank) {
    const auto value = group.store->get(key_of(what, rank));
    all.emplace_back(value.begin(), value.end());
  }
  return all;
}

} // namespace

std::unique_ptr<Comm> make_shared_memory(const Group& group) {
  auto own = Arena::create();
  std::vector<Arena> arenas;
  std::string fault = own ? "" : own.error().message;
  const auto addresses = exchange(group, "arena", own ? own->address() : "none");
  for (int rank = 0; rank < group.world_size && fault.empty(); ++rank) {
    if (addresses[size_t(rank)] == "none")
      continue; // that rank will say why
    auto arena =
        rank == group.rank ? Result<Arena>(*std::move(own)) : Arena::open(addresses[size_t(rank)]);
    if (arena)
      arenas.push_back(*std::move(arena));
    else
      fault = arena.error().message;
  }
  // A file may close only after all have opened it, which this exchange also tells.
  const auto mapped = exchange(group, "mapped", fault.empty() ? "yes" : "no");
  const auto failing = std::find(mapped.begin(), mapped.end(), "no");
  if (failing != mapped.end()) {
    if (failing - mapped.begin() == group.rank)
      std::fprintf(stderr,
                   "dist-trainer: warning: rank %d of the node has no %s; Gloo serves instead\n",
                   group.rank, fault.c_str());
    return nullptr;
  }
  return std::make_unique<SharedMemory>(std::move(arenas), group);
}

} // namespace dist_train
