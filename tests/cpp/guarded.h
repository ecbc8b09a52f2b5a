// Memory for operands of kernels under test. It ends right before a page that nobody may access, so
// that a read or write past the end of an operand is a fault at once, without a sanitizer.
#pragma once

#if !defined(__SANITIZE_ADDRESS__)
#include <sys/mman.h>
#include <unistd.h>
#endif

#include <cstddef>
#include <cstdint>
#include <new>
#include <vector>

namespace cpuaccel {

#if defined(__SANITIZE_ADDRESS__)

// AddressSanitizer also finds accesses before the begin and after the end of a smaller vector.
template <typename T>
using GuardedVector = std::vector<T>;

#else

inline size_t page_bytes() {
  static const auto bytes = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return bytes;
}

// An allocator whose memory ends at a protected page. `T` may be aligned to at most its own size.
template <typename T>
struct GuardAllocator {
  using value_type = T;

  GuardAllocator() = default;
  template <typename U>
  GuardAllocator(const GuardAllocator<U>& /*other*/) {}

  static size_t mapped(size_t count) {
    const size_t page = page_bytes();
    return (count * sizeof(T) + page - 1) / page * page + page;
  }

  T* allocate(size_t count) {
    static_assert(sizeof(T) % alignof(T) == 0);
    const size_t bytes = mapped(count), page = page_bytes();
    void* const begin =
        mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (begin == MAP_FAILED) {
      throw std::bad_alloc();
    }
    auto* const end = static_cast<std::byte*>(begin) + bytes - page;
    if (mprotect(end, page, PROT_NONE) != 0) {
      munmap(begin, bytes);
      throw std::bad_alloc();
    }
    return reinterpret_cast<T*>(end - count * sizeof(T));
  }

  void deallocate(T* pointer, size_t count) {
    const size_t bytes = mapped(count);
    auto* const end = reinterpret_cast<std::byte*>(pointer + count) + page_bytes();
    munmap(end - bytes, bytes);
  }

  bool operator==(const GuardAllocator& /*other*/) const { return true; }
};

template <typename T>
using GuardedVector = std::vector<T, GuardAllocator<T>>;

#endif

}  // namespace cpuaccel
