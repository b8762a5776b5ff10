#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "plan/plan_data.hpp"

namespace terrace::detail {

/// What some formats need beside the plan.
struct export_options {
    std::vector<std::string> interfaces;  ///< of a node, in the order of its NICs; empty: eth0, eth1, ...
};

/// A format that `terrace export` writes.
struct export_format {
    std::string_view name;         ///< as `--to` takes it
    std::string_view description;  ///< a line of the help
    /// Returns the text of the file. @throws usage_error if the format cannot hold this plan
    std::string (*write)(const plan_data& plan, const export_options& options);
    bool has_interfaces = false;  ///< uses `export_options::interfaces`
    bool executable = false;      ///< the file is a program
};

/// All formats.
std::span<const export_format> export_formats() noexcept;
/// Returns the format of a name. @throws usage_error that lists all names
const export_format& export_format_of(std::string_view name);

// The formats' writers, a file for each kind. docs/reference/exports.md describes what they write.
std::string plan_json(const plan_data& plan, const export_options&);
std::string simgrid_platform(const plan_data& plan, const export_options&);
std::string nic_script(const plan_data& plan, const export_options& options);
std::string openmpi_rankfile(const plan_data& plan, const export_options&);
std::string openmpi_hostfile(const plan_data& plan, const export_options&);
std::string mpich_machinefile(const plan_data& plan, const export_options&);
std::string slurm_hostfile(const plan_data& plan, const export_options&);
std::string torchrun_lines(const plan_data& plan, const export_options&);

}  // namespace terrace::detail
