#include "bench/measure/reduction_rate.hpp"

#include <chrono>
#include <vector>

#include "base/index.hpp"
#include "base/wire.hpp"
#include "bench/report/figures.hpp"
#include "kernels/reduce.hpp"

namespace terrace::detail::bench {

double reduction_rate() {
    constexpr int pieces = 64, rounds = 15;
    constexpr std::int64_t count = wire_segment / sizeof(float);
    std::vector<float> sum(at(pieces) * count), piece(count, 1.0F);
    const reduce_kernel add = find_reduce(element_type::float32, reduce_op::sum);
    std::vector<double> times;
    for (int r = 0; r < rounds; ++r) {
        const auto begin = std::chrono::steady_clock::now();
        for (int p = 0; p < pieces; ++p) {
            float* into = sum.data() + p * count;
            const void* sources[] = {into, piece.data()};
            add(into, sources, 2, count, 1);
        }
        times.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
    }
    return static_cast<double>(pieces * wire_segment) / quantile(times, 0.5);
}

double shared_reduction_rate(const world& w) {
    w.barrier();
    return -w.maximum(-reduction_rate());
}

}  // namespace terrace::detail::bench
