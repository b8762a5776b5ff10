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

/// What `terrace-bench --links` is asked for.
struct links_settings {
    std::filesystem::path topology_file;
    std::filesystem::path output_file;  ///< empty: only print
    options::placement place = options::placement::by_node;
    bool device = false;  ///< what NCCL and MPI take between GPUs, not what the links give
    bool force = false;   ///< replaces a file that Terrace did not write
    bool progress = false;
};
std::variant<links_settings, answer> parse_links_settings(int argc, const char* const* argv);

/// What one pair of ranks finds on a level, or all pairs of the level at once.
struct link_figures {
    double half_round_trip = 0;  ///< of a message of 8 bytes; of one pair only [s]
    double bandwidth = 0;        ///< of a child's link into the level, per direction [B/s]
    double overhead = 0;         ///< of a message sent and one received at the same time [s]
};

struct measured_level {
    link_figures pair, all;
};

struct measured_machine {
    std::vector<std::optional<measured_level>> levels;  ///< nothing where a level joins nothing
    double reduction = 0;                               ///< bytes a rank adds up in a second while all do [B/s]
    double reduction_alone = 0;                         ///< while no other does
};

/// Collective; a few seconds a level. @param ranks of the world, by place in the machine
measured_machine measure_machine(const world& w, const hierarchy& machine, const std::vector<int>& ranks,
                                 progress& shown);

/// The machine with what was measured in place of what its file said. A message costs half a round trip in all, of
/// which the cost model charges the header and the overhead apart: inside a node that of all pairs, which share its
/// memory.
hierarchy calibrated(hierarchy machine, const measured_machine& m);

/// The figures beside those of the file, for people.
std::string links_text(const hierarchy& before, const measured_machine& m, const hierarchy& after);

}  // namespace terrace::detail::bench
