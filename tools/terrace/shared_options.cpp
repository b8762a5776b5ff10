#include <fstream>
#include <system_error>
#include <vector>

#include <fmt/format.h>

#include <terrace/error.hpp>

#include "base/units.hpp"
#include "tools/common/spelling.hpp"
#include "tools/terrace/command_list.hpp"
#include "topology/formats.hpp"

// Options of several commands of terrace.

namespace terrace::detail {

namespace {

// Refuses plans, which are YAML, too, with a mark near the beginning. Read as a cluster file, a plan would lack a key.
std::string no_plan(const std::string& file) {
    std::string text = "\n";
    if (std::error_code ignored; std::filesystem::is_regular_file(file, ignored)) {
        text.resize(4096);
        std::ifstream(file).read(&text[1], 4095);
    }
    if (text.find("\nterrace_plan:") == text.npos) return "";
    return fmt::format("{0} is a plan already; to see what it does: terrace explain {0}", file);
}

}  // namespace

std::int64_t call_options::size() const {
    const auto parsed = parse_bytes(bytes, true);
    if (!parsed || *parsed < 1)
        throw usage_error(
            fmt::format("--bytes {}: not a size; write a number, as in 1000000, with K, M, G or T behind it for powers "
                        "of 1024 (k, Ki, KiB are the same), or with KB, MB, GB or TB for powers of 1000",
                        bytes));
    return *parsed;
}

void add_machine_options(CLI::App& command, machine_options& o) {
    command
        .add_option("MACHINE", o.source, fmt::format("{}; - reads a file from standard input", format_descriptions()))
        ->required()
        ->check(no_plan);
    add_ranks_option(command, o.ranks, ", where one node is described");
    command.add_option("--gpu-fabric", o.gpu_fabric,
                       "what links all GPUs of a node directly, where its file does not say: nvlink:300GB/s (xgmi, "
                       "xelink), all links of one GPU per direction; or none");
    command.add_option("--network,--slurm", o.network, "how such nodes are connected: " + network_descriptions());
    command.add_option("--network-name", o.network_name,
                       "which network of a file that has several (default: the one that it calls its default)");
    command
        .add_option(
            "--labels", o.labels,
            "labels of Kubernetes' nodes that say how the network nests, outermost first: a.com/block,a.com/rack")
        ->delimiter(',');
    command
        .add_option("--link-unit", o.link_unit,
                    "unit of LinkSpeed in topology.conf, which Slurm does not define: gbit or mbit (default: gbit if "
                    "the file's smallest number is below 1000, else mbit)")
        ->check(CLI::IsMember({"gbit", "mbit"}));
    CLI::Option* hosts =
        command.add_option("--hosts", o.hosts, "only these nodes: an MPI host file, or a list as in 'tux[0-3,7]'");
    command.add_flag("--slurm-job", o.slurm_job, "only the nodes of this Slurm job (SLURM_JOB_NODELIST)")
        ->excludes(hosts);
}

void add_ranks_option(CLI::App& command, std::string& ranks, const std::string& when) {
    command
        .add_option(
            "--ranks", ranks,
            fmt::format("what a rank is{}: {} (default: gpus if there are any, else cores)", when, rank_unit_names()))
        ->check([](const std::string& text) {
            return parse_rank_unit(text) ? "" : fmt::format("\"{}\" is none of {}", text, rank_unit_names());
        });
}

void add_plan_option(CLI::App& command, std::filesystem::path& file) {
    command.add_option("PLAN", file, "plan file")->required();
}

void add_call_options(CLI::App& command, call_options& o) {
    std::vector<std::string> collectives;
    for (const collective c : all_collectives) collectives.emplace_back(to_string(c));
    command.add_option("--bytes", o.bytes, "message size, that of all blocks together; K M G T are binary")
        ->capture_default_str();
    command.add_option("--collective", o.collective, "which collective")
        ->transform(CLI::IsMember(collectives, [](const std::string& word) { return plain_letters(word); }))
        ->capture_default_str();
}

}  // namespace terrace::detail
