#include "base/amx.h"

#include "base/cpu.h"
#include "base/isa.h"

#if defined(__x86_64__) && defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace cpuaccel {
namespace {

bool ask_for_tiles() {
#if defined(__x86_64__) && defined(__linux__)
  // https://docs.kernel.org/arch/x86/xstate.html
  constexpr long kRequestPermission = 0x1023;
  constexpr long kTileData = 18;
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
#else
  return false;
#endif
}

}  // namespace

bool has_amx_tiles() {
  static const bool given = this_cpu().has({Feature::amx_bf16}) && ask_for_tiles();
  return given;
}

bool amx_tiles_usable() { return isa_usable(Isa::amx); }

}  // namespace cpuaccel
