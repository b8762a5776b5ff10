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

// The commands of `terrace`: what each is told, and runs. Every `run` returns the exit code.

namespace terrace::detail {

/// One call, as the command line names it.
struct call_options {
    std::string bytes = "64MiB";
    std::string collective{to_string(terrace::detail::collective::allreduce)};

    /// @throws usage_error
    std::int64_t size() const;
    terrace::detail::collective what() const { return *parse_collective(collective); }
};

/// `terrace plan MACHINE [-o FILE] [--profile DIRECTORY] [--sensitivity] [--force]`: makes a plan for a cluster, proves
/// what it can of it, and writes it.
struct plan_command {
    machine_options machine;
    std::string wire;              ///< "LEVEL=TYPE,...": wire types of levels, in place of those in the cluster file
    std::filesystem::path output;  ///< a file; -: standard output; empty: the cluster's name with .plan.yaml, here
    std::string profile;        ///< a directory of profiles, by which the machine's figures are corrected; empty: none
    bool sensitivity = false;   ///< prints what other values of assumed figures would change
    bool reproducible = false;  ///< reductions have the rules that suit options::reproducible
    int candidate = 0;          ///< a plan of the candidates in this place by price, 1 for the cheapest; 0: the plan
    bool force = false;         ///< replaces a file that Terrace did not write

    /// @returns the exit code: 1 where the plan is wrong, and not written
    int run() const;
};

/// `terrace explain PLAN [--bytes N] [--collective C] [--rank R]`: why a plan does what it does, for one call; or the
/// program of one rank.
struct explain_command {
    std::filesystem::path plan_file;
    call_options call;
    std::optional<int> rank;  ///< whose program is printed

    int run() const;
};

/// `terrace simulate PLAN --bytes N [--trace FILE]`: a call of all ranks over the machine's links.
struct simulate_command {
    std::filesystem::path plan_file;
    call_options call;
    std::string origin;           ///< of a baseline to run in place of the plan's rules; empty: those
    std::filesystem::path trace;  ///< file to write; empty: none
    bool reproducible = false;    ///< as with options::reproducible
    bool json = false;
    bool force = false;  ///< replaces a file that Terrace did not write

    int run() const;
};

/// `terrace verify PLAN [--count N] [--whole]`: proves that a plan computes the right result on every rank. Instead of
/// a plan, what `terrace export` wrote.
struct verify_command {
    std::filesystem::path plan_file;    ///< or OUT of `terrace export`
    std::optional<std::int64_t> count;  ///< of elements; nothing: those where plans go wrong
    bool whole = false;                 ///< every program as a whole, however long that takes
    std::filesystem::path made_of;      ///< the plan that an exported file must agree with; empty: not known

    /// @returns the exit code: 1 where a program is wrong
    int run() const;

private:
    int prove_export(const export_format& format) const;
    int prove_facts(const export_format& format, const plan_facts& found) const;
    int prove_rules(const plan_data& plan) const;
};

/// `terrace diff A B`: prints what differs between two plans, at which message sizes, and the predicted gain.
struct diff_command {
    std::filesystem::path before, after;

    /// @returns the exit code: 0 if the plans run everything alike, 1 if they differ
    int run() const;
};

/// `terrace export PLAN --to FORMAT [-o FILE]`: writes a plan, or a call of it, for other programs.
struct export_command {
    std::filesystem::path plan_file;
    std::string format;            ///< the name of an export_format
    export_options options;        ///< what the format needs beside
    call_options call;             ///< of formats of calls
    std::filesystem::path output;  ///< a file; empty: standard output
    bool force = false;            ///< replaces what Terrace did not write

    int run() const;

private:
    int write_call(const export_format& to) const;
};

/// `terrace report FILE... -o PAGE`: plans and results of measurements as one page that needs no network.
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

/// Returns this machine as a cluster of one node. @param ranks what a rank is (parse_rank_unit)
topology this_machine(hardware parts, const std::string& ranks);

/// `terrace detect [-o FILE] [--node-file FILE] [--ranks UNIT]`: describes the machine it runs on as a cluster file.
struct detect_command {
    std::filesystem::path output;     ///< cluster file; empty: standard output
    std::filesystem::path node_file;  ///< where the machine goes as hwloc XML; empty: into the cluster file
    bool force = false;               ///< replaces files that Terrace did not write
    std::string ranks;                ///< what a rank is (parse_rank_unit)

    int run() const;
};

/// `terrace doctor`: what would trip a run on this machine, each with its fix.
struct doctor_command {
    std::filesystem::path plan_file;  ///< of jobs here: what it needs of /dev/shm, and whose NICs; empty: not known

    std::filesystem::path dumps;   ///< a directory of dumps, to read instead; empty: none
    std::filesystem::path bundle;  ///< the archive to write for a report of a problem; empty: none, "-": printed
    bool force = false;            ///< replaces a file that Terrace did not write

    /// @returns the exit code: 1 where something would
    int run() const;
};

/// `terrace run -n RANKS -- PROGRAM ...`: prints and runs the line of mpirun that starts an MPI program under the
/// drop-in.
struct run_command {
    int ranks = 0;                     ///< 0: what the launcher makes of its own options
    std::string mpi;                   ///< of known_mpis.hpp; empty: the one that the program is linked to
    std::filesystem::path plan;        ///< empty: as TERRACE_PLAN says
    std::filesystem::path report;      ///< file to write; empty: as TERRACE_PMPI_REPORT says
    std::string mode;                  ///< of TERRACE_PMPI; empty: as it is
    std::string launcher;              ///< more arguments of mpirun, separated by blanks
    bool prints = false;               ///< the line, and runs nothing
    std::vector<std::string> program;  ///< with its arguments

    /// @returns the exit code, where nothing was run   @throws usage_error if the MPI or the drop-in is unknown
    int run() const;
};

/// Returns the manual page (roff) of the drop-in for MPI, libterrace-pmpi(7), with its variables.
std::string drop_in_page();

/// Returns what `terrace info` prints.
std::string info_text();

/// `terrace info [--json]`: what this Terrace is, what it was built with, and what the environment tells it.
struct info_command {
    bool json = false;

    /// @returns the exit code: 1 where that has something wrong
    int run() const;
};

}  // namespace terrace::detail
