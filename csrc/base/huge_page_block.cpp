#include "base/huge_page_block.h"

#include <memory>

#include "base/page_runs.h"

namespace cpuaccel {
namespace {

constexpr size_t kLeast = size_t{64} << 10;  // smaller blocks fill few pages

// AddressSanitizer detects reads past the end of heap blocks, but not of these.
#if defined(__SANITIZE_ADDRESS__)
constexpr bool kHeapAlone = true;
#else
constexpr bool kHeapAlone = false;
#endif

// Never destroyed: blocks may outlive any static object.
PageRuns& runs() {
  static auto& runs = *std::make_unique<PageRuns>().release();
  return runs;
}

}  // namespace

AlignedBlock huge_page_block(size_t bytes) {
  if (bytes >= kLeast && !kHeapAlone) {
    const size_t taken = PageRuns::rounded(bytes);
    if (std::byte* data = runs().take(taken); data != nullptr) {
      return AlignedBlock(data, AlignedDelete{taken});
    }
  }
  return aligned_block(bytes);
}

void give_back_huge_page_block(std::byte* data, size_t bytes) { runs().give_back(data, bytes); }

}  // namespace cpuaccel
