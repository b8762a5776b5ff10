#include "tools/terrace/bundle.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <chrono>
#include <numeric>

#include <gnu/libc-version.h>
#include <sys/utsname.h>

#include <fmt/format.h>

#include <terrace/error.hpp>
#include <terrace/version.hpp>

#include "api/environment.hpp"
#include "base/text_file.hpp"
#include "tools/terrace/commands.hpp"
#include "tools/terrace/dumps.hpp"
#include "topology/formats/cluster.hpp"
#include "topology/formats/hwloc.hpp"

namespace terrace::detail {

namespace {

constexpr auto prefixes =
    std::to_array<std::string_view>({"TERRACE_", "OMPI_", "OPAL_", "PMIX_", "PRTE_", "MPICH_", "MPIR_", "MPIEXEC_",
                                     "PMI_", "HYDRA_", "UCX_", "NCCL_", "CUDA_", "SLURM_"});
// PRECONDITION: the key of a job of Open MPI, OMPI_MCA_orte_precondition_transports.
constexpr auto secrets = std::to_array<std::string_view>(
    {"AUTH", "CERT", "COOKIE", "CRED", "JWT", "KEY", "PASS", "PRECONDITION", "SECRET", "TOKEN", "URI"});

bool is_secret(std::string name, std::string_view value) {
    std::ranges::transform(name, name.begin(), [](unsigned char c) { return std::toupper(c); });
    const bool has_user = value.find("://") != value.npos && value.find('@') != value.npos;
    return has_user ||
           std::ranges::any_of(secrets, [&](std::string_view word) { return name.find(word) != name.npos; });
}

std::string system_text() {
    utsname self{};
    uname(&self);
    const std::filesystem::path release = "/etc/os-release";
    return fmt::format("{} {} {}\nglibc {}\n{}", self.sysname, self.release, self.machine, gnu_get_libc_version(),
                       std::filesystem::exists(release) ? read_text(release, 1 << 16) : "");
}

// Returns the variables of an environment ("NAME=value") that Terrace, MPI, PMIx, UCX, NCCL, CUDA and Slurm read, a
// line each. Values that may be passwords, tokens, keys or addresses of servers are omitted.
std::string reported_variables(std::span<const std::string> environment) {
    std::vector<std::string> lines;
    for (const std::string& variable : environment) {
        const std::string name = variable.substr(0, variable.find('='));
        if (std::ranges::none_of(prefixes, [&](std::string_view prefix) { return name.starts_with(prefix); })) continue;
        const std::string value = variable.substr(std::min(name.size() + 1, variable.size()));
        lines.push_back(fmt::format("{}={}\n", name, is_secret(name, value) ? "(left out)" : value));
    }
    std::ranges::sort(lines);
    return std::accumulate(lines.begin(), lines.end(), std::string());
}

}  // namespace

std::vector<bundle_file> bundle_files(const std::function<std::string()>& findings, std::filesystem::path plan,
                                      std::filesystem::path dumps) {
    constexpr std::size_t most_bytes = 64 << 20;
    std::vector<bundle_file> files;
    const std::vector<std::string> environment = process_environment();
    // An error is part of the report.
    const auto add = [&](const std::string& name, const std::function<std::string()>& make) {
        try {
            files.push_back({name, make()});
        } catch (const error& e) {
            files.push_back({name, fmt::format("cannot be read: {}\n", e.what())});
        }
    };
    add("README", [] { return fmt::format("A report of a problem, made by terrace doctor {}.\n", version()); });
    add("doctor.txt", findings);
    add("info.txt", info_text);
    add("system.txt", system_text);
    add("machine.yaml", [] { return write_cluster(this_machine(usable_hardware().parts, "")); });
    add("environment.txt", [&] { return reported_variables(environment); });
    if (plan.empty()) plan = value_in(environment, "TERRACE_PLAN");
    if (!plan.empty()) add("plan.yaml", [&] { return read_text(plan, most_bytes); });
    if (const auto set = value_in(environment, "TERRACE_DUMP"); dumps.empty() && !set.empty())
        dumps = std::filesystem::absolute(set).parent_path();
    if (!dumps.empty())
        add("dumps/verdict.txt", [&] {
            const std::map<int, rank_dump> all = read_dumps(dumps);
            for (const auto& each : all)
                add(fmt::format("dumps/{}.json", each.first), [&] { return read_text(each.second.file, most_bytes); });
            return verdict_of(all);
        });
    return files;
}

std::string tar_archive(std::span<const bundle_file> files) {
    constexpr std::size_t block = 512;
    const auto now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
    std::string archive;
    for (const bundle_file& file : files) {
        std::string header(block, '\0');
        const auto put = [&](std::size_t at, std::string_view field) { header.replace(at, field.size(), field); };
        put(0, file.name);
        put(100, "0000644");  // mode
        put(108, "0000000");  // user
        put(116, "0000000");  // group
        put(124, fmt::format("{:011o}", file.text.size()));
        put(136, fmt::format("{:011o}", now));
        put(148, "        ");  // the checksum below counts its own field as blanks
        put(156, "0");         // a regular file
        put(257, "ustar");
        put(263, "00");
        const int sum = std::accumulate(header.begin(), header.end(), 0,
                                        [](int all, char c) { return all + static_cast<unsigned char>(c); });
        put(148, fmt::format("{:06o}", sum));
        header[154] = '\0';
        archive += header + file.text;
        archive.append((block - file.text.size() % block) % block, '\0');
    }
    return archive.append(2 * block, '\0');
}

}  // namespace terrace::detail
