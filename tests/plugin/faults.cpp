// SPDX-License-Identifier: BSD-3-Clause
#include "tests/plugin/faults.h"

#include <algorithm>
#include <arpa/inet.h>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <link.h>
#include <netdb.h>
#include <new>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <utility>

namespace {

thread_local int suspended = 0;
std::atomic<bool> armed = false;
std::atomic<FaultPlan*> plan = nullptr; // malloc may come before everything else

} // namespace

FaultPlan& fault_plan() {
  if (!plan.load()) {
    void* memory =
        mmap(nullptr, sizeof(FaultPlan), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
      std::abort();
    plan = new (memory) FaultPlan{};
  }
  return *plan.load();
}

void arm_faults(FaultPlan::Kind kind, int due, bool from_then, int spank_code) {
  auto& p = fault_plan();
  p.kind = kind;
  p.due = due;
  p.from_then = from_then;
  p.spank_code = spank_code;
  p.count = 0;
  p.hit = false;
  p.name = "";
  armed = true;
}

void disarm_faults() { armed = false; }
void resume_faults() { armed = true; }

bool fault_due(FaultPlan::Kind kind, const char* name) {
  auto* p = plan.load();
  if (!armed || !p || suspended > 0)
    return false;
  bool counts = p->kind == FaultPlan::kAny ? kind != FaultPlan::kMemory : kind == p->kind;
  if (!counts)
    return false;
  int number = ++p->count;
  if (number < p->due || (number > p->due && !p->from_then))
    return false;
  if (!p->hit.exchange(true))
    p->name = name;
  return true;
}

NoFaults::NoFaults() { ++suspended; }
NoFaults::~NoFaults() { --suspended; }
WithFaults::WithFaults() : before_(std::exchange(suspended, 0)) {}
WithFaults::~WithFaults() { suspended = before_; }

namespace {

// libc's, or a sanitizer's, which must learn of threads and the like.
template <typename Function>
Function* next(Function*, const char* name, const char* sanitizer_name) {
  void* found = dlsym(RTLD_DEFAULT, sanitizer_name);
  return reinterpret_cast<Function*>(found ? found : dlsym(RTLD_NEXT, name));
}
#define NEXT(name) next(&name, #name, "__interceptor_" #name)

} // namespace

// A definition of this program comes before libc's for every object of the process.
#define OVER_LIBC extern "C" __attribute__((visibility("default")))
#define FAILING(result, name, parameters, arguments, failure)                                      \
  OVER_LIBC result name parameters {                                                               \
    static auto* real = NEXT(name);                                                                \
    if (fault_due(FaultPlan::kAny, #name)) {                                                       \
      failure;                                                                                     \
    }                                                                                              \
    return real arguments;                                                                         \
  }
#define FAILS_WITH(value, error)                                                                   \
  errno = error;                                                                                   \
  return value

FAILING(int, socket, (int f, int t, int p) noexcept, (f, t, p), FAILS_WITH(-1, EMFILE))
FAILING(int, bind, (int f, const sockaddr* a, socklen_t n) noexcept, (f, a, n),
        FAILS_WITH(-1, EADDRINUSE))
FAILING(int, listen, (int f, int n) noexcept, (f, n), FAILS_WITH(-1, EADDRINUSE))
FAILING(int, setsockopt, (int f, int l, int o, const void* v, socklen_t n) noexcept,
        (f, l, o, v, n), FAILS_WITH(-1, ENOBUFS))
FAILING(int, getsockopt, (int f, int l, int o, void* v, socklen_t* n) noexcept, (f, l, o, v, n),
        FAILS_WITH(-1, ENOBUFS))
FAILING(int, getsockname, (int f, sockaddr* a, socklen_t* n) noexcept, (f, a, n),
        FAILS_WITH(-1, ENOBUFS))
FAILING(int, connect, (int f, const sockaddr* a, socklen_t n), (f, a, n),
        FAILS_WITH(-1, ECONNREFUSED))
FAILING(int, accept4, (int f, sockaddr* a, socklen_t* n, int g), (f, a, n, g),
        FAILS_WITH(-1, EMFILE))
FAILING(ssize_t, send, (int f, const void* b, size_t n, int g), (f, b, n, g),
        FAILS_WITH(-1, ECONNRESET))
FAILING(ssize_t, recv, (int f, void* b, size_t n, int g), (f, b, n, g), FAILS_WITH(-1, ECONNRESET))
FAILING(int, poll, (pollfd * p, nfds_t n, int t), (p, n, t), FAILS_WITH(-1, ENOMEM))
FAILING(int, eventfd, (unsigned v, int g) noexcept, (v, g), FAILS_WITH(-1, EMFILE))
FAILING(ssize_t, getrandom, (void* b, size_t n, unsigned g), (b, n, g), FAILS_WITH(-1, ENOSYS))
FAILING(int, pthread_create,
        (pthread_t * t, const pthread_attr_t* a, void* (*f)(void*), void* x) noexcept, (t, a, f, x),
        return EAGAIN)
FAILING(int, getifaddrs, (ifaddrs * *l) noexcept, (l), FAILS_WITH(-1, ENOMEM))
FAILING(int, getaddrinfo, (const char* h, const char* s, const addrinfo* i, addrinfo** l),
        (h, s, i, l), return EAI_MEMORY)
FAILING(int, sched_getaffinity, (pid_t p, size_t n, cpu_set_t* s) noexcept, (p, n, s),
        FAILS_WITH(-1, EPERM))
FAILING(int, sched_setaffinity, (pid_t p, size_t n, const cpu_set_t* s) noexcept, (p, n, s),
        FAILS_WITH(-1, EPERM))
FAILING(int, getrlimit, (__rlimit_resource_t r, rlimit* l) noexcept, (r, l), FAILS_WITH(-1, EPERM))
FAILING(int, setrlimit, (__rlimit_resource_t r, const rlimit* l) noexcept, (r, l),
        FAILS_WITH(-1, EPERM))
FAILING(FILE*, fopen, (const char* p, const char* m), (p, m), FAILS_WITH(nullptr, EMFILE))
FAILING(int, setenv, (const char* n, const char* v, int o) noexcept, (n, v, o),
        FAILS_WITH(-1, ENOMEM))

OVER_LIBC int fcntl(int fd, int command, ...) {
  static auto* real = NEXT(fcntl);
  va_list arguments;
  va_start(arguments, command);
  long value = va_arg(arguments, long); // as libc itself reads it
  va_end(arguments);
  if (fault_due(FaultPlan::kAny, "fcntl")) {
    FAILS_WITH(-1, EMFILE);
  }
  return real(fd, command, value);
}

// Memory: under a sanitizer, which has a malloc of its own, where C++ asks for it; else below that,
// since the plugin brings its own operator new.
#ifdef DIST_TRAIN_SANITIZED

void* operator new(std::size_t size) {
  if (fault_due(FaultPlan::kMemory, "operator new"))
    throw std::bad_alloc();
  if (void* memory = std::malloc(size))
    return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

#else

extern "C" void* __libc_malloc(size_t);
extern "C" void* __libc_calloc(size_t, size_t);
extern "C" void* __libc_realloc(void*, size_t);

// The loader's own block for a thread's variables: without it the process ends, whoever asks.
std::uintptr_t loader_begin = 0, loader_end = 0;
__attribute__((constructor)) void find_loader() {
  dl_iterate_phdr(
      [](dl_phdr_info* object, size_t, void*) {
        if (!std::strstr(object->dlpi_name, "/ld-linux"))
          return 0;
        loader_begin = object->dlpi_addr;
        for (int i = 0; i < object->dlpi_phnum; ++i)
          loader_end = std::max(loader_end, object->dlpi_addr + object->dlpi_phdr[i].p_vaddr +
                                                object->dlpi_phdr[i].p_memsz);
        return 1;
      },
      nullptr);
}
bool from_loader(void* caller) {
  auto place = reinterpret_cast<std::uintptr_t>(caller);
  return loader_begin <= place && place < loader_end;
}

OVER_LIBC void* malloc(size_t size) {
  if (!from_loader(__builtin_return_address(0)) && fault_due(FaultPlan::kMemory, "malloc")) {
    FAILS_WITH(nullptr, ENOMEM);
  }
  return __libc_malloc(size);
}
OVER_LIBC void* calloc(size_t count, size_t size) {
  if (fault_due(FaultPlan::kMemory, "calloc")) {
    FAILS_WITH(nullptr, ENOMEM);
  }
  return __libc_calloc(count, size);
}
OVER_LIBC void* realloc(void* memory, size_t size) {
  if (fault_due(FaultPlan::kMemory, "realloc")) {
    FAILS_WITH(nullptr, ENOMEM);
  }
  return __libc_realloc(memory, size);
}

#endif
