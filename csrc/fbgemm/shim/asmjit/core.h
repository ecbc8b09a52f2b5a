// A stub for asmjit's headers, which torch's wheel does not ship. FBGEMM's SimdUtils.h names three
// register types of asmjit, but only as aliases, never in a layout or a call: declarations are
// enough.
#pragma once

#define ASMJIT_LIBRARY_MAKE_VERSION(major, minor, patch) \
  (((major) << 16) | ((minor) << 8) | (patch))
#define ASMJIT_LIBRARY_VERSION ASMJIT_LIBRARY_MAKE_VERSION(1, 0, 0)

namespace asmjit::x86 {
class Xmm;
class Ymm;
class Zmm;
}  // namespace asmjit::x86
