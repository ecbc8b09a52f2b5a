// Runs a package of cpuaccel.aot_compile on inputs from a file and compares its outputs.
//
//   run_package PACKAGE.pt2 TENSORS.pt [RUNS]
//
// TENSORS.pt was written by torch.jit.save for a module that holds the inputs of a call as buffers
// in0, in1, ... and the expected outputs as out0, out1, ... (make_package.py writes both files).
// Exits with 1 if an output differs by more than 1e-3 of the largest expected number.

#include <cpuaccel.h>
#include <torch/csrc/inductor/aoti_package/model_package_loader.h>
#include <torch/script.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

constexpr double kTolerance = 1e-3;

std::vector<at::Tensor> numbered(const torch::jit::Module& module, const std::string& prefix) {
  std::vector<at::Tensor> found;
  while (module.hasattr(prefix + std::to_string(found.size()))) {
    found.push_back(module.attr(prefix + std::to_string(found.size())).toTensor());
  }
  return found;
}

// The largest difference, relative to the largest expected number.
double difference(const at::Tensor& found, const at::Tensor& expected) {
  if (found.sizes() != expected.sizes() || found.scalar_type() != expected.scalar_type()) {
    throw std::runtime_error("a result of another size or type than expected");
  }
  const double most = expected.abs().max().item<double>();
  return (found - expected).abs().max().item<double>() / std::max(most, 1e-30);
}

void say(torch::inductor::AOTIModelPackageLoader& package, const std::string& file) {
  const auto metadata = package.get_metadata();
  const auto made_on = metadata.find("cpuaccel_isa");
  if (made_on == metadata.end()) {
    throw std::runtime_error(file + " is no package of cpuaccel.aot_compile");
  }
  std::cout << "cpuaccel " << cpuaccel::version()
            << (cpuaccel::is_enabled() ? " on " + cpuaccel::isa() : " switched off")
            << ", package of cpuaccel " << metadata.at("cpuaccel") << " made on " << made_on->second
            << '\n';
}

int run(const std::string& file, const std::string& tensors, int runs) {
  cpuaccel::enable();
  const c10::InferenceMode inference;
  torch::inductor::AOTIModelPackageLoader package(file);
  say(package, file);
  const auto module = torch::jit::load(tensors);
  const auto inputs = numbered(module, "in");
  const auto expected = numbered(module, "out");
  const auto results = package.run(inputs);
  if (results.size() != expected.size()) {
    throw std::runtime_error("expected " + std::to_string(expected.size()) + " results, got " +
                             std::to_string(results.size()));
  }
  double most = 0;
  for (size_t i = 0; i < results.size(); ++i) {
    most = std::max(most, difference(results[i], expected[i]));
  }
  std::cout << "largest difference: " << most << " of the largest number\n";
  std::vector<double> times;
  for (int i = 0; i < runs; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    package.run(inputs);
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begin;
    times.push_back(took.count());
  }
  if (!times.empty()) {
    std::ranges::nth_element(times, times.begin() + static_cast<long>(times.size() / 2));
    std::cout << "median of " << runs << " runs: " << times[times.size() / 2] << " ms\n";
  }
  return most <= kTolerance ? EXIT_SUCCESS : EXIT_FAILURE;
}

}  // namespace

int main(int count, char** words) {
  if (count != 3 && count != 4) {
    std::cerr << "usage: run_package PACKAGE.pt2 TENSORS.pt [RUNS]\n";
    return 2;
  }
  try {
    return run(words[1], words[2], count == 4 ? std::stoi(words[3]) : 20);
  } catch (const std::exception& error) {
    std::cerr << "run_package: error: " << error.what() << '\n';
    return 2;
  }
}
