// Exercises the host's side of cuda/common without a GPU and prints what it finds, for test_common.py to judge.
#include <cmath>
#include <cstdio>
#include <limits>
#include <vector>

#include "common/json.hpp"
#include "common/oscillator.cuh"
#include "common/timing.cuh"

int main(int argc, char** argv) {
    lab::program_name = "host_checks";
    // Loop and matrix power, from several starts.
    double worst = 0, one_short = 1e9;
    lab::Random random(7);
    for (int k = 0; k < 50; ++k) {
        const float s = 0.0625f * (1.0f + 0.5f * random.uniform());
        const int steps = 1 + static_cast<int>(random.bits() % 3000);
        float x = random.uniform(), v = random.uniform();
        const double x0 = static_cast<double>(x), v0 = static_cast<double>(v);
        for (int i = 0; i < steps; ++i) lab::oscillator_step(x, v, s);
        const double size = std::sqrt(x0 * x0 + v0 * v0) + 1e-3;
        const auto distance = [&](int n) {
            const lab::Propagator p = lab::propagator(static_cast<double>(s), static_cast<std::uint64_t>(n));
            return std::hypot(static_cast<double>(x) - p.xx * x0 - p.xv * v0, static_cast<double>(v) - p.vx * x0 - p.vv * v0) / size;
        };
        worst = std::fmax(worst, distance(steps));
        one_short = std::fmin(one_short, distance(steps - 1));
    }
    double mean = 0, least = 2, most = -2;
    for (int k = 0; k < 100000; ++k) {
        const double value = static_cast<double>(random.uniform());
        mean += value / 100000;
        least = std::fmin(least, value);
        most = std::fmax(most, value);
    }
    lab::Record record{"host_checks", "quote \" backslash \\ newline \n", {}, {}, {}, {}};
    record.parameters.add("whole", 7).add("flag", true).add("text", "x");
    record.results.add("nan", std::nan("")).add("infinity", std::numeric_limits<double>::infinity());
    record.results.add("worst", worst).add("one_short", one_short).add("mean", mean).add("least", least).add("most", most);
    record.results.add("median_of_four", lab::median({4, 1, 3, 2})).add("quartile_of_four", lab::quantile({4, 1, 3, 2}, 0.25));
    lab::add_spread(record.results, "time", "us", {3, 1, 2});
    record.results.add("empty", std::vector<double>{});
    record.check("passes", true, "fine");
    if (argc > 2) record.check("fails", false, "on purpose");
    return record.finish(argv[1]);
}
