#include "ops/allocator.h"

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <dlfcn.h>
#include <link.h>
#include <malloc.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string_view>

C10_DECLARE_bool(caffe2_cpu_allocator_do_zero_fill);
C10_DECLARE_bool(caffe2_cpu_allocator_do_junk_fill);

namespace cpuaccel::ops {
namespace {

using memory::BlockPool;

// Priority for SetCPUAllocator: torch's own is 0, and only a higher or equal one replaces another.
constexpr uint8_t kPriority = 1;

c10::Allocator* torch_allocator() { return c10::GetDefaultCPUAllocator(); }

class CachingAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    if (bytes >= kSmallestCached && !fills()) {
      if (void* data = pool_.allocate(bytes)) {
        c10::profiledCPUMemoryReporter().New(data, bytes);
        return {data, data, &release, c10::Device(c10::kCPU)};
      }
    }
    age_sometimes();
    // Raises torch's own error if there is no memory.
    return torch_->allocate(bytes);
  }

  c10::DeleterFnPtr raw_deleter() const override { return &release; }

  void copy_data(void* dst, const void* src, size_t bytes) const override {
    default_copy_data(dst, src, bytes);
  }

 private:
  static bool fills() {
    return FLAGS_caffe2_cpu_allocator_do_zero_fill || FLAGS_caffe2_cpu_allocator_do_junk_fill;
  }

  // Lets a program that allocates only small tensors still return idle blocks.
  void age_sometimes() const {
    constexpr unsigned kTensors = 256;
    static thread_local unsigned tensors = 0;
    if (pool_.has_cached() && ++tensors % kTensors == 0) {
      pool_.age();
    }
  }

  static void release(void* data) {
    if (data == nullptr) {
      return;
    }
    if (BlockPool::may_own(data) && block_pool().owns(data)) {
      // Reported first: once it is released, another thread may get the block and report it.
      c10::profiledCPUMemoryReporter().Delete(data);
      block_pool().release(data);
      return;
    }
    torch_allocator()->raw_deallocate(data);
  }

  // Looked up once, because every small tensor takes this path.
  BlockPool& pool_ = block_pool();
  c10::Allocator* torch_ = torch_allocator();
};

CachingAllocator& caching_allocator() {
  static auto& allocator = *std::make_unique<CachingAllocator>().release();  // outlives tensors
  return allocator;
}

// The name of the file that defines a function. Empty if unknown: in a program that is linked to a
// fixed address and takes the function's address, such as Debian's Python for Arm, the address is
// that of a stub.
std::string file_of(const char* function) {
  Dl_info info{};
  const ElfW(Sym)* symbol = nullptr;
  if (dladdr1(dlsym(RTLD_DEFAULT, function), &info,
              const_cast<void**>(reinterpret_cast<const void**>(&symbol)), RTLD_DL_SYMENT) == 0 ||
      info.dli_fname == nullptr || (symbol != nullptr && symbol->st_shndx == SHN_UNDEF)) {
    return {};
  }
  const std::string path = info.dli_fname;
  return path.substr(path.rfind('/') + 1);
}

// The file that malloc, or the function that torch calls, comes from, unless it is the C library.
std::string other_malloc() {
  for (const char* function : {"malloc", "posix_memalign"}) {
    const std::string name = file_of(function);
    if (!name.empty() && !name.starts_with("libc.") && !name.starts_with("libc-") &&
        !name.starts_with("ld-musl")) {
      return name;
    }
  }
  return {};
}

}  // namespace

BlockPool& block_pool() {
  static auto& pool =
      *std::make_unique<BlockPool>([] { return memory::machine_memory(); }).release();
  return pool;
}

std::string install_allocator() {
  if (allocator_installed()) {
    return {};
  }
  if (const auto name = other_malloc(); !name.empty()) {
    return "malloc comes from " + name;
  }
  if (c10::GetCPUAllocator() != torch_allocator()) {
    return "an allocator other than torch's is set";
  }
  c10::SetCPUAllocator(&caching_allocator(), kPriority);
  return allocator_installed() ? "" : "torch has an allocator with a higher priority";
}

void uninstall_allocator() {
  if (allocator_installed()) {
    c10::SetCPUAllocator(torch_allocator(), kPriority);
  }
}

int64_t empty_memory_cache() {
  const int64_t bytes = block_pool().empty();
#ifdef __GLIBC__
  malloc_trim(0);
#endif
  return bytes;
}

bool allocator_installed() { return c10::GetCPUAllocator() == &caching_allocator(); }

}  // namespace cpuaccel::ops
