#include "ops/attention_tuning.h"

#include <ATen/Functions.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <sstream>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/tuning.h"
#include "dnnl/tuning_cache.h"
#include "kernels/attention/attention.h"
#include "ops/attention.h"
#include "ops/torch_compat/generator.h"

namespace cpuaccel::ops {
namespace {

// In a model, cpuaccel's step also saves a call and its overhead. So it only has to be as fast as
// medians can tell.
constexpr double kEnough = 0.97;
// For few queries it also saves copies of the cached keys and values: a plan writes to them in
// place, and torch's kernel would split the plan.
constexpr double kEnoughOfFew = 0.8;
constexpr int kRounds = 7;
constexpr double kSeconds = 0.05;  // for all rounds, approximately
constexpr uint64_t kSeed = 1;
constexpr int kCpuaccel = 0, kTorch = 1;
constexpr size_t kMostCopies = 64;

// Few queries and more keys: a decoder step, whose keys are cached.
bool are_few(const AttentionProblem& problem) {
  return problem.L <= kernels::kAttentionFewQueries && problem.S > problem.L;
}

// The key in the tuning cache.
std::string tuning_key(const AttentionProblem& p, bool in_bf16) {
  std::ostringstream text;
  text << "attention " << (p.bf16 ? "bf16" : in_bf16 ? "f32 in bf16" : "f32");
  for (const int64_t size : {p.N, p.H, p.L, p.S, p.E}) {
    text << ' ' << size;
  }
  text << (are_few(p) ? " cached" : "") << (p.mask ? " mask" : "") << (p.causal ? " causal" : "");
  text << ' ' << dnnl_layer::tuning_conditions();
  return text.str();
}

DataType type_of(const AttentionProblem& problem) {
  return problem.bf16 ? DataType::bf16 : DataType::f32;
}

}  // namespace

AttentionTimes time_attention(const AttentionProblem& p) {
  const at::NoGradGuard no_grad;
  auto generator = at::detail::createCPUGenerator(kSeed);  // torch's default generator is not used
  const auto type = p.bf16 ? at::kBFloat16 : at::kFloat;
  const auto projected = [&](int64_t rows) {
    return at::rand({p.N, rows, p.H, p.E}, generator, type).transpose(1, 2);
  };
  const auto cached = [&] { return at::rand({p.N, p.H, p.S, p.E}, generator, type); };
  const at::Tensor query = projected(p.L);
  std::optional<at::Tensor> mask;
  if (p.mask) {
    mask = at::zeros({p.L, p.S}, query.scalar_type());
  }
  // Keys of few queries lie head by head in a decoder's cache. The layers between two calls have
  // evicted them from the CPU's caches, so several copies are read in turn.
  std::vector<std::pair<at::Tensor, at::Tensor>> keys_and_values;
  if (are_few(p)) {
    const int64_t bytes = 2 * p.N * p.H * p.S * p.E * static_cast<int64_t>(c10::elementSize(type));
    const auto copies = copies_to_read(bytes, kMostCopies);
    for (size_t copy = 0; copy < copies; ++copy) {
      keys_and_values.emplace_back(cached(), cached());
    }
  } else {
    keys_and_values.emplace_back(projected(p.S), projected(p.S));
  }
  double spent = 0;
  const auto seconds = [&](auto run) {
    const double all = seconds_of([&] {
      for (const auto& [key, value] : keys_and_values) {
        run(AttentionOperands{query, key, value, mask});
      }
    });
    spent += all;
    return all / static_cast<double>(keys_and_values.size());
  };
  const auto time_cpuaccel = [&] {
    return seconds([&](const auto& each) { cpuaccel_attention(each, p.causal, std::nullopt); });
  };
  const auto time_torch = [&] {
    return seconds([&](const auto& each) { torch_attention(each, 0.0, p.causal, std::nullopt); });
  };
  constexpr double kNever = std::numeric_limits<double>::infinity();
  AttentionTimes best{kNever, kNever};
  time_cpuaccel();
  time_torch();
  for (int round = 0; round == 0 || (round < kRounds && spent < kSeconds); ++round) {
    const double cpuaccel = time_cpuaccel(), torch = time_torch();
    best = {std::min(best.cpuaccel, cpuaccel), std::min(best.torch, torch)};
  }
  return best;
}

std::string attention_plan_fallback_reason(const AttentionProblem& problem) {
  if (attention_is_always_faster()) {
    return {};
  }
  const bool bf16 = attention_in_bf16(type_of(problem));
  if (!dnnl_layer::tuning_enabled()) {
    const char* const reason = attention_fallback_reason(problem.L, bf16);
    return reason != nullptr ? reason : "";
  }
  const std::string key = tuning_key(problem, bf16);
  const int chosen = dnnl_layer::tuning_result(key, [&] {
    const auto times = time_attention(problem);
    log_decision("timed " + key + ": cpuaccel " + in_microseconds(times.cpuaccel) + ", torch " +
                 in_microseconds(times.torch));
    const double enough = are_few(problem) ? kEnoughOfFew : kEnough;
    return times.torch >= enough * times.cpuaccel ? kCpuaccel : kTorch;
  });
  return chosen == kCpuaccel ? "" : "torch's kernel was faster in tuning";
}

}  // namespace cpuaccel::ops
