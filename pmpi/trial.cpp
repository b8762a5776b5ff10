#include "pmpi/trial.hpp"

#include <algorithm>

namespace terrace::detail::pmpi {

namespace {

// Terrace must be faster by so much: times scatter, and MPI is what the user asked for.
constexpr double worth = 0.97;

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
    : each_(bytes > large     ? 1
            : bytes >= medium ? 4
                              : 6),
      extra_(bytes > large ? 1 : 0) {}

runner trial::next() const noexcept {
    if (settled_) return chosen_;
    return mpi_.size() < each_ ? runner::mpi : runner::terrace;
}

void trial::add(runner by, double seconds) {
    (by == runner::mpi ? mpi_ : terrace_).push_back(seconds);
    spent_ += seconds;
}

bool trial::may_settle() const noexcept { return mpi_.size() >= each_ && terrace_.size() >= each_; }

trial::durations trial::times() const { return {median_after_first(mpi_), median_after_first(terrace_)}; }

void trial::settle(const durations& slowest) noexcept {
    agreed_ = slowest;
    const bool faster = slowest.terrace < worth * slowest.mpi;
    if (!faster && terrace_.size() < each_ + extra_) return;
    chosen_ = faster ? runner::terrace : runner::mpi;
    settled_ = true;
}

void trial::give_up() noexcept {
    chosen_ = runner::mpi;
    settled_ = true;
}

}  // namespace terrace::detail::pmpi
