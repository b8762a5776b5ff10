#pragma once

#include <string>

#include "base/document.hpp"
#include "machine/hierarchy.hpp"

namespace terrace::detail {

inline constexpr int max_levels = 16;
inline constexpr int max_ranks = 1 << 20;
/// The limits of rates [B/s] keep every time that is computed from them finite. A million nodes' links into a dimension
/// of a torus, together, are well within.
inline constexpr double slowest_link = 1, fastest_link = 1e17;

/// Reads `levels:` and, where the sizes are left out, `tree:` from a map (a cluster file, or a plan's topology
/// section). `hosts:` at the level whose domains or children are nodes names these. Rates that are left out come from
/// `default_rates` and are marked assumed; a bandwidth may be a list, one for each child; `assumed: [bandwidth,
/// latency]` marks rates that are written out. `names:` are those of a level's domains. `reduction:` and `cores:` may
/// stand beside `levels:`. @throws input_error
/// @param of_nodes true if the ranks of these levels are nodes, the inside of which is described elsewhere
hierarchy read_hierarchy(const document& map, bool of_nodes = false);

/// Reads one of wire_type_names(). @throws input_error
wire_type read_wire_type(const document& entry);

/// The parts of it, for a reader that has the shape from elsewhere: the levels, without sizes, and what stands
/// beside them.
std::vector<level> read_levels(const document& list);
processors read_processors(const document& map);
/// Reads `nics:` of the level whose children are nodes, once the shape is known. @throws input_error
void read_level_nics(const std::vector<document>& levels, hierarchy& h, bool of_nodes);
/// Returns the bandwidth that a file gives back for one that was written to it [B/s].
double as_printed(double bandwidth);
/// One rate, in the limits of files; the bandwidth of one link where so many count together.
double read_bandwidth(const document& entry, double links = 1);
double read_latency(const document& entry);
double read_overhead(const document& entry);
/// A list of names as Slurm writes hosts, or a YAML list of such. @throws input_error for more than max_hosts
std::vector<std::string> read_names(const document& list);

/// The same as YAML lines, units normalised, each line indented by `indent`: reads back equal.
std::string write_hierarchy(const hierarchy& h, int indent);

/// The level with its rates rounded to what write_hierarchy prints, as read_hierarchy returns them.
level normalised(level l);

/// The one table of rates for what a file does not say, per fabric; documented in docs/reference/topology-files.md.
struct rates {
    double bandwidth;  // [B/s]
    double latency;    // [s]
    double overhead;   // [s]
};
rates default_rates(fabric f) noexcept;

/// What a level's links take for buffers on GPUs, with what its file leaves out assumed
/// (docs/reference/topology-files.md). NCCL's steps take the level's latency where the file does not speak of NCCL.
device_rates nccl_rates(const level& l) noexcept;
device_rates mpi_rates(const level& l) noexcept;
/// "nccl: stage 12 us, step 9 us *, bandwidth 450 GB/s *", assumed values marked; empty where the file says nothing.
std::string device_rates_text(const level& l);

}  // namespace terrace::detail
