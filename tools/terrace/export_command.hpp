#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "machine/hierarchy.hpp"

namespace terrace::detail {

/// `terrace export PLAN --rankfile|--hostfile|--nics|--simgrid|--json [-o FILE]`: writes a plan for other programs.
struct export_command {
    std::filesystem::path plan_file;
    bool rankfile = false, hostfile = false, nics = false, simgrid = false, json = false;  ///< one of them
    std::vector<std::string> interfaces;  ///< with `nics`: of a node, in the order of its NICs; empty: eth0, eth1, ...
    std::filesystem::path output;         ///< a file; empty: standard output
    bool force = false;                   ///< replaces what Terrace did not write

    /// @returns the exit code
    int run() const;

private:
    std::vector<std::string> interfaces_of(const hierarchy& machine) const;
};

}  // namespace terrace::detail
