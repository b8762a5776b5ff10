#include "planner/simulate/processor_times.hpp"

#include <algorithm>

#include "base/index.hpp"
#include "planner/devices.hpp"

namespace terrace::detail::sim {

processor_times::processor_times(const hierarchy& machine)
    : ranks_(at(machine.ranks())), access_(access_time(machine)) {}

// A copy that a rank makes in order to send is made by the core that also receives.
double processor_times::send(int number, double now, double overhead, double bytes) {
    rank& r = ranks_[at(number)];
    const double handed = occupy(r.sending, now, overhead, 0);
    if (bytes == 0) return handed;
    r.working.free = std::max(r.working.free, handed);
    return occupy(r.working, now, 0, bytes);
}

double processor_times::work(int number, double now, double overhead, double bytes) {
    return occupy(ranks_[at(number)].working, now, overhead, bytes);
}

double processor_times::free_at(int number, double now) const { return std::max(now, ranks_[at(number)].working.free); }

double processor_times::occupy(timeline& t, double now, double overhead, double bytes) {
    const double time = overhead + bytes * access_;
    t.busy += time;
    return t.free = std::max(t.free, now) + time;
}

std::vector<double> processor_times::busy() const {
    std::vector<double> result;
    for (const rank& r : ranks_) result.push_back(std::max(r.sending.busy, r.working.busy));
    return result;
}

}  // namespace terrace::detail::sim
