#pragma once

#include <optional>
#include <string>
#include <vector>

#include "bench/device/gpu.hpp"
#include "bench/measure/world.hpp"
#include "machine/hierarchy.hpp"
#include "tools/common/progress.hpp"

namespace terrace::detail::bench {

/// Figures of NCCL and MPI between GPUs on a level, measured by one pair of ranks or by all pairs at once.
struct device_figures {
    device_rates nccl, mpi;  ///< `stage` is measured only for all groups at once
};

struct measured_device_level {
    device_figures pair, all;
};

struct measured_devices {
    std::vector<std::optional<measured_device_level>> levels;  ///< nothing for a level that joins nothing
    std::string by;  ///< transport of the messages: "nccl 2.28.9 on device 0, mpi through host memory"
};

/// Times steps, streams and NCCL's own collectives on each level over the transport of device buffers, by events.
/// Collective; a few seconds per level. @param ranks of the world, by place in the machine. @throws transport_error
measured_devices measure_devices(const world& w, const hierarchy& machine, const std::vector<int>& ranks, const gpu& on,
                                 progress& shown);

/// Returns the machine with measured rates as `nccl` and `mpi` of its levels. The overhead of a message is subtracted
/// from the time of a step, since the cost model charges it separately.
hierarchy calibrated(hierarchy machine, const measured_devices& m);

/// Returns the figures beside those of the file, for people.
std::string links_text(const hierarchy& before, const measured_devices& m, const hierarchy& after);

}  // namespace terrace::detail::bench
