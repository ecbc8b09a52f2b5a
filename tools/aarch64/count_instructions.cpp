// Plugin of qemu-user that counts executed instructions. Whenever the program calls
// getpriority(kMark, tag), it appends a line "tag count" to the file of the argument out=. The
// count covers all threads, and is exact with one thread only.
//
// Debian's emulator package lacks the header for plugins, so the parts of that interface that are
// used (version 1 of https://www.qemu.org/docs/master/devel/tcg-plugins.html) are declared here.
#include <cstdint>
#include <cstdio>
#include <cstring>

extern "C" {

struct qemu_plugin_tb;
enum InlineOp { kAddU64 };

size_t qemu_plugin_tb_n_insns(const qemu_plugin_tb* block);
void qemu_plugin_register_vcpu_tb_trans_cb(uint64_t id,
                                           void (*translated)(uint64_t id, qemu_plugin_tb* block));
void qemu_plugin_register_vcpu_tb_exec_inline(qemu_plugin_tb* block, InlineOp op, void* to,
                                              uint64_t value);
void qemu_plugin_register_vcpu_syscall_cb(uint64_t id,
                                          void (*called)(uint64_t id, unsigned cpu, int64_t number,
                                                         uint64_t a1, uint64_t a2, uint64_t a3,
                                                         uint64_t a4, uint64_t a5, uint64_t a6,
                                                         uint64_t a7, uint64_t a8));

__attribute__((visibility("default"))) int qemu_plugin_version = 1;
}

namespace {

constexpr int64_t kGetPriority = 141;  // on 64-bit Arm
constexpr uint64_t kMark = 0xc0de;
constexpr const char* kOut = "out=";

uint64_t g_count = 0;
std::FILE* g_out = nullptr;

void count_block(uint64_t /*id*/, qemu_plugin_tb* block) {
  qemu_plugin_register_vcpu_tb_exec_inline(block, kAddU64, &g_count, qemu_plugin_tb_n_insns(block));
}

void write_mark(uint64_t /*id*/, unsigned /*cpu*/, int64_t number, uint64_t which, uint64_t tag,
                uint64_t /*a3*/, uint64_t /*a4*/, uint64_t /*a5*/, uint64_t /*a6*/, uint64_t /*a7*/,
                uint64_t /*a8*/) {
  if (number == kGetPriority && which == kMark) {
    std::fprintf(g_out, "%llu %llu\n", static_cast<unsigned long long>(tag),
                 static_cast<unsigned long long>(g_count));
    std::fflush(g_out);
  }
}

}  // namespace

extern "C" __attribute__((visibility("default"))) int qemu_plugin_install(uint64_t id,
                                                                          const void* /*info*/,
                                                                          int count,
                                                                          char** arguments) {
  for (int i = 0; i < count; ++i) {
    if (std::strncmp(arguments[i], kOut, std::strlen(kOut)) == 0) {
      g_out = std::fopen(arguments[i] + std::strlen(kOut), "w");
    }
  }
  if (g_out == nullptr) {
    std::fputs("count_instructions: expected out=FILE, a file that can be written\n", stderr);
    return 1;
  }
  qemu_plugin_register_vcpu_tb_trans_cb(id, count_block);
  qemu_plugin_register_vcpu_syscall_cb(id, write_mark);
  return 0;
}
