#include "planner/simulate/processor_times.hpp"

#include <algorithm>

#include "base/index.hpp"
#include "planner/devices.hpp"

namespace terrace::detail::sim {

processor_times::processor_times(const hierarchy& machine)
    : sending_(at(machine.ranks())), working_(sending_), access_(access_time(machine)) {}

// A copy that a rank makes in order to send is made by the core that also receives.
double processor_times::send(int rank, double now, double overhead, double bytes) {
    const double handed = occupy(sending_[at(rank)], now, overhead, 0);
    return bytes == 0 ? handed : work(rank, handed, 0, bytes);
}

double processor_times::work(int rank, double now, double overhead, double bytes) {
    return occupy(working_[at(rank)], now, overhead, bytes);
}

double processor_times::free_at(int rank, double now) const { return std::max(now, working_[at(rank)].free); }

double processor_times::occupy(timeline& t, double now, double overhead, double bytes) {
    const double time = overhead + bytes * access_;
    t.busy += time;
    return t.free = std::max(t.free, now) + time;
}

std::vector<double> processor_times::busy() const {
    std::vector<double> result;
    for (std::size_t r = 0; r < working_.size(); ++r) result.push_back(std::max(sending_[r].busy, working_[r].busy));
    return result;
}

}  // namespace terrace::detail::sim
