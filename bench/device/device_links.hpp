#pragma once

#include <optional>
#include <string>
#include <vector>

#include "bench/device/gpu.hpp"
#include "bench/measure/world.hpp"
#include "machine/hierarchy.hpp"
#include "tools/common/progress.hpp"

namespace terrace::detail::bench {

/// What moves buffers between GPUs takes on a level, as found with one pair of ranks or with all pairs at once.
struct device_figures {
    device_rates nccl, mpi;  ///< stages: of all groups at once only
};

struct measured_device_level {
    device_figures pair, all;
};

struct measured_devices {
    std::vector<std::optional<measured_device_level>> levels;  ///< nothing where a level joins nothing
    std::string by;  ///< what moved the messages: "nccl 2.28.9 on device 0, mpi through host memory"
};

/// Steps, streams and NCCL's own collectives on each level, by what calls on device buffers go by, timed by events.
/// Collective; a few seconds a level. @param ranks of the world, by place in the machine. @throws transport_error
measured_devices measure_devices(const world& w, const hierarchy& machine, const std::vector<int>& ranks, const gpu& on,
                                 progress& shown);

/// The machine with what was measured as its levels' `nccl` and `mpi`. Of a step's start-up the cost model charges the
/// overhead of a message apart.
hierarchy calibrated(hierarchy machine, const measured_devices& m);

/// The figures beside those of the file, for people.
std::string links_text(const hierarchy& before, const measured_devices& m, const hierarchy& after);

}  // namespace terrace::detail::bench
