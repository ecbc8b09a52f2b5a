#include "quant/external_provider.h"

#include <array>
#include <atomic>

namespace cpuaccel::quant {
namespace {

// Constant initialization: other files register before this one's statics would exist.
constinit std::array<std::atomic<const ExternalProvider*>, static_cast<size_t>(Provider::count_)>
    g_external_providers{};

}  // namespace

RegisterProvider::RegisterProvider(Provider provider, const ExternalProvider& functions) {
  g_external_providers[static_cast<size_t>(provider)].store(&functions, std::memory_order_release);
}

const ExternalProvider* external_provider(Provider provider) {
  return g_external_providers[static_cast<size_t>(provider)].load(std::memory_order_acquire);
}

}  // namespace cpuaccel::quant
