#pragma once

#include <optional>
#include <string>

#include "base/document.hpp"
#include "machine/hierarchy.hpp"
#include "machine/rates.hpp"

namespace terrace::detail {

inline constexpr int max_ranks = 1 << 20;
/// Limits of rates [B/s], which keep all computed times finite. Even the links of a million nodes into one dimension of
/// a torus, added up, are below the upper limit.
inline constexpr double slowest_link = 1, fastest_link = 1e17;

/// Reads one item of `levels:`, without its size, names, hosts and NICs, which depend on the shape. @throws input_error
level read_level(const document& map);
/// Returns a level as YAML in braces.
/// @param size children of each domain, if equal for all   @param hosts, nics values of these keys; empty: left out
std::string write_level(const level& l, std::optional<int> size, const std::string& hosts, const std::string& nics);

/// Reads `reduction:` and `segment:`, which are beside the levels. @throws input_error
processors read_processors(const document& map);
/// Returns them as lines, each indented by `indent`.
std::string write_processors(const processors& p, int indent);

/// Reads one of wire_type_names(). @throws input_error
wire_type read_wire_type(const document& entry);
/// Returns the bandwidth [B/s] that results from writing one to a file and reading it back.
double as_printed(double bandwidth);
/// Reads one rate and checks the limits of files. @param links how many such links must be within the limits together
double read_bandwidth(const document& entry, double links = 1);
double read_latency(const document& entry);
double read_overhead(const document& entry);

/// Returns the level with its rates rounded as write_hierarchy prints them and read_hierarchy returns them.
level normalised(level l);

/// Returns "nccl: stage 12 us, step 9 us *, bandwidth 450 GB/s *", `*` at assumed values; empty if the file has none.
std::string device_rates_text(const level& l);

}  // namespace terrace::detail
