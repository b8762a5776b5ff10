#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "bench/measure/world.hpp"
#include "bench/settings.hpp"
#include "tools/common/progress.hpp"
#include "topology/model.hpp"

namespace terrace::detail::bench {

/// Settings of `terrace-bench --links`.
struct links_settings {
    std::filesystem::path topology_file;
    std::filesystem::path output_file;  ///< empty: only print
    options::placement place = options::placement::by_node;
    bool device = false;  ///< measures NCCL and MPI between GPUs instead of the links
    bool force = false;   ///< replaces a file that Terrace did not write
    bool progress = false;
};
std::variant<links_settings, answer> parse_links_settings(int argc, const char* const* argv);

/// Figures of a level, measured by one pair of ranks or by all pairs of the level at once.
struct link_figures {
    double half_round_trip = 0;  ///< for 8 bytes, by one pair only [s]
    double bandwidth = 0;        ///< rate of a child's link into the level, per direction [B/s]
    double overhead = 0;         ///< time of a message sent and one received at the same time [s]
};

struct measured_level {
    link_figures pair, all;
};

struct measured_machine {
    std::vector<std::optional<measured_level>> levels;  ///< nothing for a level that joins nothing
    double reduction = 0;                               ///< rate at which a rank reduces while all do [B/s]
    double reduction_alone = 0;                         ///< the same of one rank alone [B/s]
};

/// Measures all levels. Collective; a few seconds per level. @param ranks of the world, by place in the machine
measured_machine measure_machine(const world& w, const hierarchy& machine, const std::vector<int>& ranks,
                                 progress& shown);

/// Returns the machine with measured figures instead of those of its file. A message costs half a round trip in all;
/// the cost model charges its header and its overhead separately. Inside a node the overhead and the bandwidth are
/// those of all pairs, which share the memory.
hierarchy calibrated(hierarchy machine, const measured_machine& m);

/// Returns the figures beside those of the file, for people.
std::string links_text(const hierarchy& before, const measured_machine& m, const hierarchy& after);

}  // namespace terrace::detail::bench
