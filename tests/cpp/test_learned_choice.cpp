#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/isa.h"
#include "base/learned_choice.h"

namespace cpuaccel {
namespace {

constexpr double kAnyShare = 1e12;
constexpr std::array<int8_t, 3> kCandidates{2, 0, 1};  // 2 is suggested

LearnedProblem problem_of(uint8_t size) {
  LearnedProblem problem;
  problem.type = 6;
  problem.sizes[0] = size;
  problem.threads = 1;
  return problem;
}

class LearnedChoiceTest : public testing::Test {
 protected:
  void SetUp() override {
    clear_learned_choices();
    set_learning_share(kAnyShare);
  }
  void TearDown() override {
    set_learning_share(0.01);
    clear_learned_choices();
  }

  // Calls with these seconds, by candidate, until the choice is made or after many calls.
  static int learn(LearnedChoice& choice, const std::array<double, 3>& seconds) {
    constexpr double kWork = 1e6;
    for (int call = 0; call < 1000 && choice.chosen() < 0; ++call) {
      if (const auto probe = choice.next_probe()) {
        choice.add_probe(*probe, seconds[static_cast<size_t>(probe->candidate)], kWork);
      }
      choice.add_call(seconds[2], kWork);
    }
    return choice.chosen();
  }
};

TEST(SizeStep, GrowsByHalfOctaves) {
  EXPECT_EQ(size_step(0), 0);
  EXPECT_EQ(size_step(1), 1);
  EXPECT_EQ(size_step(4), 4);
  EXPECT_EQ(size_step(1023), 19);
  EXPECT_EQ(size_step(1024), 20);
  EXPECT_EQ(size_step(1535), 20);
  EXPECT_EQ(size_step(1536), 21);
  int before = 0;
  for (int64_t size = 1; size < 100000; ++size) {
    const int step = size_step(size);
    EXPECT_GE(step, before);
    before = step;
  }
  EXPECT_EQ(size_step(INT64_MAX), 125);
}

TEST_F(LearnedChoiceTest, ChoosesTheFastest) {
  LearnedChoice* const choice = learned_choice(problem_of(3), kCandidates);
  ASSERT_NE(choice, nullptr);
  EXPECT_EQ(choice->chosen(), -1);
  EXPECT_EQ(learn(*choice, {3e-3, 1e-3, 2e-3}), 1);
  EXPECT_EQ(learned_results(), (std::map<std::string, int>{{"learned product 6 0 3 t1 i0", 1}}));
}

TEST_F(LearnedChoiceTest, KeepsTheSuggestionWithinNoise) {
  EXPECT_EQ(learn(*learned_choice(problem_of(1), kCandidates), {2.1e-3, 1.98e-3, 2e-3}), 2);
  // A hopeless candidate is tried once.
  EXPECT_EQ(learn(*learned_choice(problem_of(2), kCandidates), {1.0, 1.0, 2e-3}), 2);
  EXPECT_GE(learning_stats().probes, 2);
}

TEST_F(LearnedChoiceTest, TimesAreComparedForEachMultiplyAdd) {
  LearnedChoice& choice = *learned_choice(problem_of(1), std::array<int8_t, 2>{0, 1});
  for (int call = 0; call < 100 && choice.chosen() < 0; ++call) {
    if (const auto probe = choice.next_probe()) {
      choice.add_probe(*probe, 1e-3, 1e6);  // 1 ns for a multiply-add
    }
    choice.add_call(1.8e-3, 2e6);  // 0.9 ns
  }
  EXPECT_EQ(choice.chosen(), 0);
}

TEST_F(LearnedChoiceTest, AFailedProbeIsDropped) {
  LearnedChoice& choice = *learned_choice(problem_of(1), std::array<int8_t, 2>{0, 1});
  for (int call = 0; call < 100 && choice.chosen() < 0; ++call) {
    if (const auto probe = choice.next_probe()) {
      choice.drop(*probe);
    }
    choice.add_call(1e-3, 1e6);
  }
  EXPECT_EQ(choice.chosen(), 0);
}

TEST_F(LearnedChoiceTest, NothingIsTriedAtTheBound) {
  LearnedChoice& choice = *learned_choice(problem_of(1), std::array<int8_t, 2>{0, 1});
  choice.add_call(1e-3, 1e6, 0.95e-3);
  choice.add_call(1e-3, 1e6, 0.95e-3);
  EXPECT_EQ(choice.chosen(), 0);
  EXPECT_EQ(learning_stats().probes, 0);
}

TEST_F(LearnedChoiceTest, TheBudgetLimitsProbes) {
  set_learning_share(1e-9);
  EXPECT_EQ(learn(*learned_choice(problem_of(1), kCandidates), {1.0, 1.0, 2.0}), -1);
  const auto stats = learning_stats();
  EXPECT_EQ(stats.open, 1);
  EXPECT_EQ(stats.probes, 0);
}

TEST_F(LearnedChoiceTest, ResultsOfOtherProcessesAreTaken) {
  set_learned_results({{problem_of(1).key(), 0}, {problem_of(2).key(), 7}});
  EXPECT_EQ(learned_choice(problem_of(1), kCandidates)->chosen(), 0);
  // 7 is no candidate: another version wrote it.
  EXPECT_EQ(learned_choice(problem_of(2), kCandidates)->chosen(), -1);
}

TEST_F(LearnedChoiceTest, NoChoiceWhileLearningIsOff) {
  set_learning(false);
  EXPECT_EQ(learned_choice(problem_of(1), kCandidates), nullptr);
  set_learning(true);
  EXPECT_NE(learned_choice(problem_of(1), kCandidates), nullptr);
}

TEST_F(LearnedChoiceTest, AFullTableLearnsNothingNew) {
  LearnedProblem problem;
  int found = 0;
  constexpr int kMany = 5000;
  for (int i = 0; i < kMany; ++i) {
    problem.sizes[0] = static_cast<uint8_t>(i % 250);
    problem.sizes[1] = static_cast<uint8_t>(i / 250);
    found += learned_choice(problem, kCandidates) != nullptr ? 1 : 0;
  }
  EXPECT_GT(found, 1000);
  EXPECT_LT(found, kMany);
}

TEST_F(LearnedChoiceTest, ManyThreadsLearnOneChoice) {
  std::vector<std::jthread> threads;
  std::atomic<int> chosen_here{0};
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&] {
      for (uint8_t size = 1; size < 50; ++size) {
        if (learn(*learned_choice(problem_of(size), kCandidates), {3e-3, 1e-3, 2e-3}) == 1) {
          chosen_here.fetch_add(1);
        }
      }
    });
  }
  threads.clear();
  EXPECT_EQ(chosen_here.load(), 4 * 49);
  EXPECT_EQ(learning_stats().chosen, 49);
}

TEST(CpuNames, TablesChooseAsOnAnotherCpu) {
  const std::string vendor = cpu_vendor(), core = cpu_core();
  set_cpu_names("GenuineIntel", "Alder Lake");
  EXPECT_EQ(cpu_vendor(), "GenuineIntel");
  EXPECT_EQ(cpu_core(), "Alder Lake");
  set_cpu_names("", "");
  EXPECT_EQ(cpu_vendor(), vendor);
  EXPECT_EQ(cpu_core(), core);
}

}  // namespace
}  // namespace cpuaccel
