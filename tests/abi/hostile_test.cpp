// SPDX-License-Identifier: BSD-3-Clause
// Strangers and broken members at the store's door: the step must not notice the former and must
// get rid of the latter.
#include <csetjmp>
#include <csignal>
#include <cstdarg>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "libstep/store/join.h"
#include "libstep/store/wire.h"

extern "C" {
#include "world.h"
#include <cmocka.h>
}

using namespace dist_train;

namespace {

const int kTwo[] = {1, 1};
const int kThree[] = {1, 1, 1};
#ifdef DIST_TRAIN_SANITIZED // whose malloc takes more
constexpr long kMostKib = 32 << 10;
#else
constexpr long kMostKib = 8 << 10;
#endif

TimePoint soon() { return Clock::now() + std::chrono::seconds(30); }

Socket knock(const world& target) {
  auto stream =
      connect_to(Endpoint{"127.0.0.1", static_cast<std::uint16_t>(target.store_port)}, soon());
  assert_true(bool(stream));
  return *std::move(stream);
}

// Whether the store ends the connection, whatever it says before.
bool shown_the_door(const Socket& stream) {
  for (;;) {
    const auto byte = receive_exactly(stream, 1, soon());
    if (!byte)
      return byte.error().message.find("no answer in time") == std::string::npos;
  }
}

// What rank 1 says first; with another token than the step's its proof is none.
Hello greeting(std::uint32_t world, const std::string& token) {
  Hello hello{kProtocolVersion, 1, world, 1, std::string(kNonceSize, 'n'), {}};
  hello.proof = as_text(prove(token, hello));
  return hello;
}

// Rounds of collectives until the test says stop; none may fail.
int working_body(world* world, int rank) {
  auto* stop = static_cast<volatile int*>(world->data);
  step_t* s = nullptr;
  CHECK(s, step_open(&s, nullptr) == STEP_OK);
  for (int last = 0; !last;) {
    int here[2] = {};
    CHECK(s, step_all_gather(s, &rank, sizeof rank, here, 60) == STEP_OK && here[1] == 1);
    last = *stop;
    CHECK(s, step_broadcast(s, 0, &last, sizeof last, 60) == STEP_OK);
  }
  step_close(s);
  return 0;
}

void test_strangers(void**) {
  rlimit files{};
  assert_int_equal(getrlimit(RLIMIT_NOFILE, &files), 0);
  files.rlim_cur = files.rlim_max < 4096 ? files.rlim_max : 4096;
  assert_int_equal(setrlimit(RLIMIT_NOFILE, &files), 0);

  world here{};
  world_init(&here, 2, kTwo);
  void* shared =
      mmap(nullptr, sizeof(int), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  assert_true(shared != MAP_FAILED);
  here.data = shared;
  for (int rank = 0; rank < 2; ++rank)
    world_spawn(&here, rank, launch_by_plugin, working_body);

  for (int i = 0; i < 100; ++i) { // garbage, a request of another protocol, a hang-up half-way
    const std::string garbage(static_cast<std::size_t>(40 + 10 * i), static_cast<char>(i));
    Socket stream = knock(here);
    (void)send_all(stream, i % 2 ? garbage : "GET / HTTP/1.1\r\nHost: localhost\r\n" + garbage,
                   soon());
    assert_true(shown_the_door(stream));
    (void)send_all(knock(here), "STEP\x01", soon());
  }
  const auto answer = [&](const Hello& hello) {
    Socket stream = knock(here);
    assert_true(bool(send_all(stream, encode(hello), soon())));
    const auto bytes = receive_exactly(stream, kWelcomeSize, soon());
    assert_true(bool(bytes));
    const auto welcome = decode_welcome(*bytes);
    assert_true(welcome.has_value());
    assert_true(shown_the_door(stream));
    return *welcome;
  };
  std::string heard(kProofSize, '\0');
  for (int i = 0; i < 100; ++i) { // without the token: what the store answers helps nobody
    Hello hello = greeting(2, "");
    hello.proof = i % 2 ? hello.proof : heard;
    const Welcome refusal = answer(hello);
    assert_true(refusal.verdict == Verdict::kWrongToken);
    heard = refusal.proof;
    assert_true(heard == std::string(kProofSize, '\0'));
  }
  { // another version of the protocol gets an answer that says so
    Hello hello = greeting(2, here.token);
    hello.version = 77;
    const Welcome refusal = answer(hello);
    assert_true(refusal.verdict == Verdict::kWrongVersion);
    assert_true(refusal.version == kProtocolVersion);
  }
  // Thousands that say next to nothing: the oldest have to go.
  std::vector<Socket> silent;
  for (int i = 0; i < 2000; ++i) {
    silent.push_back(knock(here));
    (void)send_all(silent.back(), "S", soon());
  }
  for (std::size_t i = 0; i < 1800; ++i)
    assert_true(shown_the_door(silent[i]));

  *static_cast<volatile int*>(shared) = 1;
  for (int rank = 0; rank < 2; ++rank)
    assert_int_equal(world_wait(&here, rank), 0);
  munmap(shared, sizeof(int));
  world_free(&here);
}

// Opens connections as fast as it can, keeps some hundreds, and writes into each as much as the
// kernel takes.
[[noreturn]] void flood(int port) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  const std::string garbage(std::size_t{1} << 20, 'x');
  const std::string whole = encode(greeting(3, ""));
  const std::string half = whole.substr(0, kHelloSize - 1);
  std::vector<Socket> held(300);
  for (std::size_t i = 0;; ++i) {
    auto stream = connect_to(Endpoint{"127.0.0.1", static_cast<std::uint16_t>(port)}, soon());
    if (!stream)
      continue;
    // In turn: silence, half a greeting, a whole one with garbage behind it.
    if (i % 3 != 0)
      (void)send_all(*stream, i % 3 == 1 ? half : whole + garbage, Clock::now());
    held[i % held.size()] = *std::move(stream);
  }
}

long resident_kib(pid_t process) {
  std::ifstream status("/proc/" + std::to_string(process) + "/status");
  for (std::string word; status >> word;)
    if (long kib = 0; word == "VmRSS:" && status >> kib)
      return kib;
  return -1;
}

void test_flood(void**) {
  world here{};
  world_init(&here, 3, kThree);
  const auto meet = [](world*, int) {
    step_t* s = nullptr;
    CHECK(s, step_open(&s, nullptr) == STEP_OK);
    CHECK(s, step_barrier(s, 60) == STEP_OK);
    step_close(s);
    return 0;
  };
  world_spawn(&here, 0, launch_by_plugin, meet);
  { // rank 0 serves when it answers
    Socket stream = knock(here);
    (void)send_all(stream, std::string(kHelloSize, 'x'), soon());
    assert_true(shown_the_door(stream));
  }
  const long before = resident_kib(here.pids[0]);
  pid_t attackers[2];
  for (auto& attacker : attackers)
    if (attacker = fork(); attacker == 0)
      flood(here.store_port);
  for (int i = 0; i < 20; ++i) // in the flood a silent stranger soon is the oldest
    assert_true(shown_the_door(knock(here)));
  const long after = resident_kib(here.pids[0]);
  assert_true(before > 0 && after > 0);
  if (after - before > kMostKib)
    fail_msg("strangers cost rank 0 %ld KiB", after - before);
  for (int rank = 1; rank < 3; ++rank)
    world_spawn(&here, rank, launch_by_plugin, meet);
  for (int rank = 0; rank < 3; ++rank)
    assert_int_equal(world_wait(&here, rank), 0);
  for (const auto attacker : attackers) {
    assert_int_equal(kill(attacker, SIGKILL), 0);
    assert_int_equal(waitpid(attacker, nullptr, 0), attacker);
  }
  world_free(&here);
}

// A stranger who sends byte after byte does not thereby earn more time.
void test_slow_stranger(void**) {
  world here{};
  world_init(&here, 2, kTwo);
  const auto meet = [](world*, int) {
    step_t* s = nullptr;
    CHECK(s, step_open(&s, nullptr) == STEP_OK);
    step_close(s);
    return 0;
  };
  world_spawn(&here, 0, launch_by_plugin, meet);
  const Socket stream = knock(here);
  std::size_t sent = 0;
  for (const char byte : encode(greeting(2, here.token))) {
    if (!send_all(stream, {&byte, 1}, soon()))
      break;
    ++sent;
    // Nothing comes before the greeting is whole; an end may.
    const auto answer = receive_exactly(stream, 1, Clock::now() + std::chrono::milliseconds(400));
    if (answer.error().message.find("no answer in time") == std::string::npos)
      break;
  }
  assert_in_range(sent, 2, kHelloSize - 1);
  world_spawn(&here, 1, launch_by_plugin, meet);
  for (int rank = 0; rank < 2; ++rank)
    assert_int_equal(world_wait(&here, rank), 0);
  world_free(&here);
}

// A greeting opens one seat once; one whose sender has hung up before the store looked opens none.
void test_greeting_counts_once(void**) {
  world here{};
  world_init(&here, 2, kTwo);
  world_spawn(&here, 0, launch_by_plugin, [](world*, int) {
    step_t* s = nullptr;
    CHECK(s, step_open(&s, nullptr) == STEP_OK);
    CHECK(s, step_barrier(s, 60) == STEP_OK);
    step_close(s);
    return 0;
  });
  const std::string hello = encode(greeting(2, here.token));
  { // rank 0 serves when it answers
    Socket stream = knock(here);
    (void)send_all(stream, std::string(kHelloSize, 'x'), soon());
    assert_true(shown_the_door(stream));
  }
  int status = 0;
  assert_int_equal(kill(here.pids[0], SIGSTOP), 0);
  assert_int_equal(waitpid(here.pids[0], &status, WUNTRACED), here.pids[0]);
  assert_true(bool(send_all(knock(here), hello, soon())));
  assert_int_equal(kill(here.pids[0], SIGCONT), 0);
  const Socket member = knock(here);
  const Socket thief = knock(here);
  for (const Socket* stream : {&member, &thief}) {
    assert_true(bool(send_all(*stream, hello, soon())));
    const auto bytes = receive_exactly(*stream, kWelcomeSize, soon());
    assert_true(bool(bytes));
    const auto welcome = decode_welcome(*bytes);
    assert_true(welcome.has_value());
    assert_true(welcome->verdict == (stream == &member ? Verdict::kWelcome : Verdict::kRankTaken));
  }
  assert_true(shown_the_door(thief));
  for (const Request& request :
       {Request{Collective{1, Pattern::kBarrier, 0, 0, "", -1}}, Request{Goodbye{}}}) {
    const std::string body = encode_body(request);
    assert_true(bool(send_all(
        member, encode(Header{static_cast<std::uint32_t>(body.size()), 1, kind_of(request)}) + body,
        soon())));
  }
  assert_int_equal(world_wait(&here, 0), 0);
  world_free(&here);
}

int bereft_body(world*, int) {
  step_t* s = nullptr;
  int lost = -1;
  CHECK(s, step_open(&s, nullptr) == STEP_OK);
  CHECK(s, step_wait_lost(s, &lost, 60) == STEP_OK && lost == 2);
  CHECK(s, step_set(s, "k", "v", 1) == STEP_OK); // the store lives on
  step_close(s);
  return 0;
}

// A member that knows the token, but sends what makes no sense.
void test_broken_member(void**) {
  const auto frame = [](std::uint8_t kind, const std::string& body) {
    return encode(Header{static_cast<std::uint32_t>(body.size()), 1, kind}) + body;
  };
  const std::string get = encode_body(GetKey{"k", 1, 0});
  const std::uint8_t get_kind = kind_of(GetKey{});
  const std::string cases[] = {
      std::string(kHeaderSize, '\xff'),               // a length beyond all bounds
      frame(200, ""),                                 // an unknown kind
      frame(get_kind, get.substr(0, get.size() - 1)), // cut short
      frame(get_kind, get + "x"),                     // with something behind it
      frame(get_kind, ""),                            // empty
      frame(kind_of(WaitKeys{}), "\xff\xff\xff\xff"), // four thousand million keys
      frame(kind_of(SetKey{}), "\xff\xff\xff\x7f"
                               "k"),                   // a key longer than the frame
      frame(get_kind, get).substr(0, kHeaderSize + 3), // and hangs up
  };
  for (const std::string& bytes : cases) {
    world here{};
    world_init(&here, 3, kThree);
    for (int rank = 0; rank < 2; ++rank)
      world_spawn(&here, rank, launch_by_plugin, bereft_body);
    JoinPlan plan;
    plan.places = {{"127.0.0.1", static_cast<std::uint16_t>(here.store_port)}};
    plan.token = here.token;
    plan.rank = 2;
    plan.world = 3;
    auto outcome = join_store(plan);
    auto* joined = std::get_if<Joined>(&outcome);
    assert_non_null(joined);
    assert_true(bool(send_all(joined->stream, bytes, soon())));
    if (&bytes != &cases[7])
      assert_true(shown_the_door(joined->stream));
    joined->stream.reset();
    for (int rank = 0; rank < 2; ++rank)
      assert_int_equal(world_wait(&here, rank), 0);
    world_free(&here);
  }
}

// Well-formed requests with values that no library would send are answered, not obeyed.
void test_refused_requests(void**) {
  world here{};
  world_init(&here, 2, kTwo);
  world_spawn(&here, 0, launch_by_plugin, [](world*, int) {
    step_t* s = nullptr;
    const char* key = "end";
    CHECK(s, step_open(&s, nullptr) == STEP_OK);
    CHECK(s, step_wait(s, &key, 1, 60) == STEP_OK);
    step_close(s);
    return 0;
  });
  JoinPlan plan;
  plan.places = {{"127.0.0.1", static_cast<std::uint16_t>(here.store_port)}};
  plan.token = here.token;
  plan.rank = 1;
  plan.world = 2;
  auto outcome = join_store(plan);
  auto* joined = std::get_if<Joined>(&outcome);
  assert_non_null(joined);
  const auto status = [&](const Request& request) {
    const std::string body = encode_body(request);
    const std::string head =
        encode(Header{static_cast<std::uint32_t>(body.size()), 9, kind_of(request)});
    assert_true(bool(send_all(joined->stream, head + body, soon())));
    const auto bytes = receive_exactly(joined->stream, kHeaderSize, soon());
    assert_true(bool(bytes));
    const auto header = decode_header(*bytes);
    assert_true(header && header->id == 9);
    assert_true(bool(receive_exactly(joined->stream, header->length, soon())));
    return int{header->kind};
  };
  const auto collective = [](Pattern pattern, std::uint32_t root, std::uint64_t length,
                             std::string data) {
    return Collective{1, pattern, root, length, std::move(data), 0};
  };
  assert_int_equal(status(SetKey{"", "v"}), STEP_ERR_PROTOCOL);
  assert_int_equal(status(SetKey{std::string("a\0b", 3), "v"}), STEP_ERR_PROTOCOL);
  assert_int_equal(status(AddKey{std::string(STEP_KEY_MAX + 1, 'k'), 1}), STEP_ERR_PROTOCOL);
  assert_int_equal(status(WaitKeys{{"a", ""}, 0}), STEP_ERR_PROTOCOL);
  assert_int_equal(status(SetKey{"k", std::string(STEP_VALUE_MAX + 1, 'v')}), STEP_ERR_PROTOCOL);
  assert_int_equal(status(collective(Pattern::kBroadcast, 2, 0, "")), STEP_ERR_PROTOCOL);
  assert_int_equal(status(collective(Pattern::kBroadcast, 1, 5, "abc")), STEP_ERR_PROTOCOL);
  assert_int_equal(status(collective(Pattern::kGather, 0, UINT64_MAX, "")), STEP_ERR_PROTOCOL);
  assert_int_equal(status(collective(Pattern::kBarrier, 0, 1, "a")), STEP_ERR_PROTOCOL);
  assert_int_equal(status(collective(static_cast<Pattern>(9), 0, 0, "")), STEP_ERR_PROTOCOL);
  assert_int_equal(status(SetKey{"end", ""}), STEP_OK);
  assert_int_equal(status(Goodbye{}), STEP_OK);
  joined->stream.reset();
  assert_int_equal(world_wait(&here, 0), 0);
  world_free(&here);
}

} // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(test_strangers),     cmocka_unit_test(test_flood),
      cmocka_unit_test(test_slow_stranger), cmocka_unit_test(test_greeting_counts_once),
      cmocka_unit_test(test_broken_member), cmocka_unit_test(test_refused_requests),
  };
  return cmocka_run_group_tests_name("hostile peers", tests, nullptr, nullptr);
}
