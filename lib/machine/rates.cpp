#include "machine/rates.hpp"

#include <algorithm>
#include <utility>

namespace terrace::detail {

rates default_rates(fabric f) noexcept {
    switch (f) {
        case fabric::shm: return {10e9, 0.5e-6, 0.3e-6};
        case fabric::nvlink: return {20e9, 2e-6, 1e-6};
        case fabric::pcie: return {12e9, 3e-6, 1e-6};
        case fabric::bus: return {16e9, 1e-6, 0.3e-6};
        case fabric::infiniband: return {12.5e9, 2e-6, 0.5e-6};
        case fabric::ethernet: return {1.25e9, 20e-6, 5e-6};
    }
    return {};
}

level usual_level(std::string name, fabric medium) {
    const rates usual = default_rates(medium);
    return {.name = std::move(name),
            .medium = medium,
            .bandwidth = usual.bandwidth,
            .latency = usual.latency,
            .overhead = usual.overhead,
            .bandwidth_assumed = true,
            .latency_assumed = true};
}

void set_message_times(level& l, double half_round_trip, double behind_others) noexcept {
    l.overhead = std::min(behind_others, half_round_trip / 2);
    l.latency = std::max(0.0, half_round_trip - l.overhead - header_of(l.medium) / l.bandwidth);
    l.latency_assumed = l.overhead_assumed = false;
}

// `kernel` is the time to begin and end a kernel of NCCL, on any fabric. `copies` is the time of a step over MPI: a
// copy at each end, over PCIe, and two polls of a thread.
device_rates nccl_rates(const level& l) noexcept {
    constexpr double kernel = 8e-6;
    device_rates r = l.nccl.value_or(device_rates{});
    if (r.step == 0) r.step = l.latency + (l.nccl ? kernel : 0);
    if (r.stage == 0) r.stage = l.latency + kernel;
    if (r.bandwidth == 0) r.bandwidth = l.bandwidth;
    return r;
}

device_rates mpi_rates(const level& l) noexcept {
    constexpr double copies = 20e-6;
    device_rates r = l.mpi.value_or(device_rates{});
    if (r.step == 0) r.step = l.latency + copies;
    if (r.bandwidth == 0) r.bandwidth = std::min(l.bandwidth, default_rates(fabric::pcie).bandwidth);
    return r;
}

}  // namespace terrace::detail
