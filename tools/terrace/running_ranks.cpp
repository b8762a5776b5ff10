#include "tools/terrace/running_ranks.hpp"

#include <fstream>
#include <iterator>
#include <map>
#include <string_view>
#include <tuple>

#include <fmt/format.h>

#include "base/index.hpp"
#include "base/text_parts.hpp"
#include "base/variables.hpp"
#include "tools/terrace/exports/formats.hpp"

namespace terrace::detail {

namespace {

namespace fs = std::filesystem;
using environment = std::vector<std::string>;  // "NAME=value"

// Returns a process's variables at its start; none if they cannot be read.
environment environment_of(const fs::path& process) {
    std::ifstream in(process / "environ", std::ios::binary);
    const std::string text{std::istreambuf_iterator<char>(in), {}};
    const std::vector<std::string_view> entries = split_at('\0', text);
    return {entries.begin(), entries.end()};
}

// Returns the name of the only interface; empty for several, for a subnet and for none, since MPI then chooses.
std::string one_nic(const environment& all) {
    for (const char* name : {"OMPI_MCA_btl_tcp_if_include", "UCX_NET_DEVICES"}) {
        const std::string_view nic = value_in(all, name);
        if (!nic.empty() && nic != "all" && nic.find_first_of(",/") == nic.npos) return std::string(nic);
    }
    return "";
}

// Variables that a launcher sets for each rank: its number in the job and on its node, the job's ranks, and the job.
struct rank_variables {
    const char *rank, *local_rank, *size, *job;
    bool of_mpi;
};
constexpr rank_variables told_by_launchers[]{
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_SIZE", "PMIX_NAMESPACE", true},
    {"SLURM_PROCID", "SLURM_LOCALID", "SLURM_STEP_NUM_TASKS", "SLURM_JOB_ID", false},
    {"RANK", "LOCAL_RANK", "WORLD_SIZE", "TORCHELASTIC_RUN_ID", false}};

// Returns the rank according to the first launcher with this number of ranks: a batch script of Slurm may start mpirun.
// Without MPI, a rank without a set NIC is ignored, since Terrace over UCX chooses the NIC itself.
std::optional<running_rank> rank_of(const environment& all, int size_of_job) {
    for (const rank_variables& by : told_by_launchers) {
        const auto number = [&](const char* name) { return as_number<int>(value_in(all, name)); };
        const auto rank = number(by.rank), local = number(by.local_rank);
        if (!rank || !local || number(by.size) != size_of_job) continue;
        running_rank found{std::string(value_in(all, by.job)), *rank, *local, one_nic(all)};
        if (found.nic.empty() && !by.of_mpi) return {};
        return found;
    }
    return {};
}

// Returns true if the process has the network of this host: containers and emulated nodes have their own.
bool shares_network(const fs::path& process, const fs::path& here) {
    std::error_code none;
    return fs::read_symlink(process / "ns/net", none) == fs::read_symlink(here / "self/ns/net", none);
}

// Returns the NIC of a rank in the plan; -1 if the plan has no such rank.
int nic_in_plan(const hierarchy& machine, const std::vector<int>& by_local_rank, const running_rank& r) {
    if (by_local_rank.empty()) return r.rank < machine.ranks() ? machine.nics.rail_of(machine.nics.of(r.rank)) : -1;
    return r.local_rank < static_cast<int>(by_local_rank.size()) ? by_local_rank[at(r.local_rank)] : -1;
}

}  // namespace

std::vector<running_rank> running_ranks(int size_of_job, const fs::path& processes) {
    std::map<std::tuple<std::string, int>, running_rank> found;
    std::error_code none;
    for (const fs::directory_entry& entry : fs::directory_iterator(processes, none)) {
        const std::string name = entry.path().filename().string();
        if (name.find_first_not_of("0123456789") != name.npos || !shares_network(entry.path(), processes)) continue;
        const environment all = environment_of(entry.path());
        const std::optional<running_rank> r = rank_of(all, size_of_job);
        if (!r) continue;
        // Scripts that started a rank, and programs that it starts, may lack the NIC, which then comes from the rank.
        running_rank& kept = found.try_emplace({r->job, r->rank}, *r).first->second;
        if (kept.nic.empty()) kept = *r;
    }
    std::vector<running_rank> ranks;
    for (auto& [key, r] : found) ranks.push_back(std::move(r));
    return ranks;
}

std::optional<std::string> nic_conflict(const hierarchy& machine, const std::vector<running_rank>& ranks) {
    const std::vector<int> by_local_rank = nics_by_local_rank(machine);
    for (const running_rank& a : ranks) {
        const int nic = nic_in_plan(machine, by_local_rank, a);
        if (nic < 0 || machine.nics.rail_count() < 2) continue;
        if (a.nic.empty()) return fmt::format("rank {} may use every NIC; the plan gives it NIC {}", a.rank, nic);
        for (const running_rank& b : ranks) {
            const int other = nic_in_plan(machine, by_local_rank, b);
            if (a.job != b.job || a.rank >= b.rank || other < 0 || b.nic.empty()) continue;
            if (a.nic == b.nic && nic != other)
                return fmt::format("ranks {} and {} both use {}; the plan gives them NICs {} and {}", a.rank, b.rank,
                                   a.nic, nic, other);
            if (a.nic != b.nic && nic == other)
                return fmt::format("ranks {} and {} use {} and {}; the plan gives them one NIC, {}", a.rank, b.rank,
                                   a.nic, b.nic, nic);
        }
    }
    return {};
}

}  // namespace terrace::detail
