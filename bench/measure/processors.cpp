#include "bench/measure/processors.hpp"

#include <chrono>
#include <fstream>
#include <sstream>
#include <vector>

#include <sys/resource.h>

#include "base/index.hpp"
#include "base/wire.hpp"
#include "bench/report/figures.hpp"
#include "kernels/reduce.hpp"

namespace terrace::detail::bench {

double own_processor_seconds() {
    rusage used{};
    getrusage(RUSAGE_SELF, &used);
    const auto seconds = [](const timeval& t) {
        return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) / 1e6;
    };
    return seconds(used.ru_utime) + seconds(used.ru_stime);
}

// proc(5): "cpu" user nice system idle iowait irq softirq steal guest guest_nice; user and nice include guest time.
std::optional<processor_time> parse_processor_time(const std::string& stat) {
    constexpr int steal = 7;
    std::istringstream text(stat);
    std::string name;
    if (!(text >> name) || name != "cpu") return std::nullopt;
    processor_time sum;
    for (int field = 0; field <= steal; ++field) {
        std::uint64_t ticks = 0;
        if (!(text >> ticks)) return std::nullopt;
        sum.all += ticks;
        if (field == steal) sum.steal = ticks;
    }
    return sum;
}

std::optional<processor_time> processor_time_now() {
    std::ifstream file("/proc/stat");
    std::string line;
    if (!std::getline(file, line)) return std::nullopt;
    return parse_processor_time(line);
}

std::optional<double> steal_time_part(const std::optional<processor_time>& before,
                                      const std::optional<processor_time>& after) {
    if (!before || !after || after->all <= before->all || after->steal < before->steal) return std::nullopt;
    return static_cast<double>(after->steal - before->steal) / static_cast<double>(after->all - before->all);
}

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
