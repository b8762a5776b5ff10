#pragma once

#include <optional>
#include <string>

#include "base/document.hpp"
#include "machine/hierarchy.hpp"
#include "machine/rates.hpp"

namespace terrace::detail {

inline constexpr int max_ranks = 1 << 20;
/// The limits of rates [B/s] keep every time that is computed from them finite. A million nodes' links into a dimension
/// of a torus, together, are well within.
inline constexpr double slowest_link = 1, fastest_link = 1e17;

/// Reads one item of `levels:`, whose size and names are for whoever knows the shape. @throws input_error
level read_level(const document& map);
/// The same as YAML in braces.
/// @param size of each domain, if all have one   @param hosts, nics if not empty, the values of those keys
std::string write_level(const level& l, std::optional<int> size, const std::string& hosts, const std::string& nics);

/// Reads `reduction:` and `segment:`, which stand beside the levels. @throws input_error
processors read_processors(const document& map);
/// The same as lines, each indented by `indent`.
std::string write_processors(const processors& p, int indent);

/// Reads one of wire_type_names(). @throws input_error
wire_type read_wire_type(const document& entry);
/// Returns the bandwidth that a file gives back for one that was written to it [B/s].
double as_printed(double bandwidth);
/// One rate, in the limits of files; the bandwidth of one link where so many count together.
double read_bandwidth(const document& entry, double links = 1);
double read_latency(const document& entry);
double read_overhead(const document& entry);

/// The level with its rates rounded to what write_hierarchy prints, as read_hierarchy returns them.
level normalised(level l);

/// "nccl: stage 12 us, step 9 us *, bandwidth 450 GB/s *", assumed values marked; empty where the file says nothing.
std::string device_rates_text(const level& l);

}  // namespace terrace::detail
