#include "pmpi/trial.hpp"

#include <algorithm>

namespace terrace::detail::pmpi {

namespace {

constexpr std::int64_t large = 1 << 20, medium = 1 << 16;

double median_after_first(std::vector<double> all) {
    if (all.size() > 2) all.erase(all.begin());
    if (all.size() == 2) return std::min(all[0], all[1]);
    if (all.empty()) return 0;
    const auto middle = all.begin() + static_cast<std::ptrdiff_t>(all.size() / 2);
    std::nth_element(all.begin(), middle, all.end());
    return *middle;
}

}  // namespace

trial::trial(std::int64_t bytes) noexcept
    : rule_(bytes >= large    ? rule{.each = 1, .extra = 1, .worth = 0.9}
            : bytes >= medium ? rule{.each = 4, .extra = 0, .worth = 0.95}
                              : rule{.each = 10, .extra = 0, .worth = 0.97}) {}

trial::durations trial::times() const { return {median_after_first(mpi_), median_after_first(terrace_)}; }

void trial::settle(const durations& slowest) noexcept {
    agreed_ = slowest;
    const bool faster = slowest.terrace < rule_.worth * slowest.mpi;
    if (!faster && terrace_.size() < rule_.each + rule_.extra) return;
    if (faster) chosen_ = runner::terrace;
    settled_ = true;
}

}  // namespace terrace::detail::pmpi
