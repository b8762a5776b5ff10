#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "plan/plan_data.hpp"
#include "tools/common/machine.hpp"
#include "tools/terrace/exports/formats.hpp"
#include "topology/model.hpp"

// The commands of `terrace`, with their options as members. Every `run` returns the exit code.

namespace terrace::detail {

/// One call, as given on the command line.
struct call_options {
    std::string bytes = "64MiB";
    std::string collective{to_string(terrace::detail::collective::allreduce)};

    /// @throws usage_error
    std::int64_t size() const;
    terrace::detail::collective what() const { return *parse_collective(collective); }
};

/// `terrace plan MACHINE [-o FILE] [--profile DIRECTORY] [--sensitivity] [--force]`: makes a plan for a cluster, proves
/// what it can, and writes the plan.
struct plan_command {
    machine_options machine;
    std::string wire;              ///< "LEVEL=TYPE,...": wire types of levels; they override the cluster file
    std::filesystem::path output;  ///< a file; -: standard output; empty: the cluster's name with .plan.yaml, here
    std::string profile;           ///< directory of profiles that correct the machine's figures; empty: none
    bool sensitivity = false;      ///< prints the effect of other values of assumed figures
    bool reproducible = false;     ///< makes the rules of reductions for options::reproducible
    int candidate = 0;             ///< plan of the candidates at this place by price, 1: cheapest; 0: normal plan
    bool force = false;            ///< replaces a file that Terrace did not write

    /// @returns the exit code: 1 if the plan is wrong, and was not written
    int run() const;
};

/// `terrace explain PLAN [--bytes N] [--collective C] [--rank R]`: explains a plan for one call, or prints the program
/// of one rank.
struct explain_command {
    std::filesystem::path plan_file;
    call_options call;
    std::optional<int> rank;  ///< rank whose program is printed

    int run() const;
};

/// `terrace simulate PLAN --bytes N [--trace FILE]`: simulates a call of all ranks over the machine's links.
struct simulate_command {
    std::filesystem::path plan_file;
    call_options call;
    std::string origin;           ///< baseline to run instead of the plan's rules; empty: the plan's
    std::filesystem::path trace;  ///< file to write; empty: none
    bool reproducible = false;    ///< as with options::reproducible
    bool json = false;
    bool force = false;  ///< replaces a file that Terrace did not write

    int run() const;
};

/// `terrace verify PLAN [--count N] [--whole]`: proves that a plan computes the right result on every rank. Also
/// accepts an output of `terrace export` instead of a plan.
struct verify_command {
    std::filesystem::path plan_file;    ///< or OUT of `terrace export`
    std::optional<std::int64_t> count;  ///< of elements; nothing: counts at which plans are likely to fail
    bool whole = false;                 ///< proves every program as a whole, regardless of the time
    std::filesystem::path made_of;      ///< plan with which an exported file must agree; empty: unknown

    /// @returns the exit code: 1 if a program is wrong
    int run() const;

private:
    int prove_export(const export_format& format) const;
    int prove_facts(const export_format& format, const plan_facts& found) const;
    int prove_rules(const plan_data& plan) const;
};

/// `terrace diff A B`: prints the differences between two plans by message size, and the predicted gain.
struct diff_command {
    std::filesystem::path before, after;

    /// @returns the exit code: 0 if the plans run all calls alike, 1 if they differ
    int run() const;
};

/// `terrace export PLAN --to FORMAT [-o FILE]`: writes a plan, or a call of it, for other programs.
struct export_command {
    std::filesystem::path plan_file;
    std::string format;            ///< name of an export_format
    export_options options;        ///< other options of the format
    call_options call;             ///< for formats of calls
    std::filesystem::path output;  ///< a file; empty: standard output
    bool force = false;            ///< replaces files that Terrace did not write

    int run() const;

private:
    int write_call(const export_format& to) const;
};

/// `terrace report FILE... -o PAGE`: shows plans and results of measurements on one page that needs no network.
struct report_command {
    std::vector<std::filesystem::path> files;  ///< plans (YAML), results (JSON), or one directory of statistics
    std::filesystem::path output;              ///< empty: results are printed as tables
    call_options call;                         ///< the call whose timeline is shown
    bool force = false;                        ///< replaces a file that Terrace did not write

    int run() const;
};

/// `terrace topo MACHINE [--json | --yaml]`: prints a machine.
struct topo_command {
    machine_options machine;
    bool json = false, yaml = false;

    int run() const;
};

/// Returns this machine as a cluster of one node. @param ranks unit of a rank (parse_rank_unit)
topology this_machine(hardware parts, const std::string& ranks);

/// `terrace detect [-o FILE] [--node-file FILE] [--ranks UNIT]`: writes a cluster file of the machine on which it runs.
struct detect_command {
    std::filesystem::path output;     ///< cluster file; empty: standard output
    std::filesystem::path node_file;  ///< file for the machine as hwloc XML; empty: inside the cluster file
    bool force = false;               ///< replaces files that Terrace did not write
    std::string ranks;                ///< unit of a rank (parse_rank_unit)

    int run() const;
};

/// `terrace doctor`: lists problems that runs on this machine would have, each with its fix.
struct doctor_command {
    std::filesystem::path plan_file;  ///< plan of jobs here, for their use of /dev/shm and of NICs; empty: unknown

    std::filesystem::path dumps;   ///< directory of dumps, which is read instead; empty: none
    std::filesystem::path bundle;  ///< archive to write for a report of a problem; empty: none, "-": printed
    bool force = false;            ///< replaces a file that Terrace did not write

    /// @returns the exit code: 1 if there is a problem
    int run() const;
};

/// `terrace run -n RANKS -- PROGRAM ...`: prints and runs the command line of mpirun that starts an MPI program with
/// the drop-in.
struct run_command {
    int ranks = 0;                     ///< 0: the number that the launcher's own options imply
    std::string mpi;                   ///< a name in known_mpis.hpp; empty: the MPI to which the program is linked
    std::filesystem::path plan;        ///< empty: as in TERRACE_PLAN
    std::filesystem::path report;      ///< file to write; empty: as in TERRACE_PMPI_REPORT
    std::string mode;                  ///< value of TERRACE_PMPI; empty: unchanged
    std::string launcher;              ///< more arguments of mpirun, separated by blanks
    bool prints = false;               ///< prints the line, and runs nothing
    std::vector<std::string> program;  ///< with its arguments

    /// @returns the exit code, if nothing ran   @throws usage_error if the MPI or the drop-in is unknown
    int run() const;
};

/// Returns the manual page (roff) of the drop-in for MPI, libterrace-pmpi(7), with its variables.
std::string drop_in_page();

/// Returns the output of `terrace info`.
std::string info_text();

/// `terrace info [--json]`: prints this Terrace, its build, and its settings from the environment.
struct info_command {
    bool json = false;

    /// @returns the exit code: 1 if a setting is wrong
    int run() const;
};

}  // namespace terrace::detail
