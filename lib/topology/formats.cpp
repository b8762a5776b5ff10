#include "topology/formats.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>

#include <fmt/format.h>

#include <terrace/error.hpp>

#include "base/keep_for_ever.hpp"
#include "base/letters.hpp"
#include "base/text_file.hpp"
#include "base/text_parts.hpp"
#include "topology/nodes.hpp"

// The table, in the order in which formats are tried. formats/NAME.cpp defines a row by a function NAME_format().
#define TERRACE_TOPOLOGY_FORMATS(row)                                                                                 \
    row(hwloc) row(nccl) row(nvidia_smi) row(synthetic) row(ibnetdiscover) row(iblinkinfo) row(slurm) row(slurm_yaml) \
        row(aws) row(kubernetes) row(cluster)

namespace terrace::detail {

#define TERRACE_DECLARE(name) topology_format name##_format();
TERRACE_TOPOLOGY_FORMATS(TERRACE_DECLARE)
#undef TERRACE_DECLARE

namespace {

// Returns the first 64 KiB of a file: enough to reach the root element, after an XML prologue and comments.
std::string beginning(const std::string& file) {
    expect_regular(file);
    errno = 0;
    std::ifstream in(file, std::ios::binary);
    std::string text(64 << 10, '\0');
    in.read(text.data(), static_cast<std::streamsize>(text.size()));
    if (in.bad() || (!in && in.gcount() == 0 && errno != 0)) {
        const std::string why = std::strerror(errno);
        throw input_error(file, 0, 0, fmt::format("cannot be read: {}{}", why, file_like(file)));
    }
    text.resize(static_cast<std::size_t>(in.gcount()));
    return text;
}

// Returns the name of the root element of an XML file.
std::string_view root_element(std::string_view text) {
    while (text.starts_with("<?") || text.starts_with("<!")) {
        const std::string_view end = text.starts_with("<!--") ? "-->" : ">";
        const std::size_t stop = text.find(end);
        if (stop == text.npos) return {};
        text = without_leading_blanks(text.substr(stop + end.size()));
    }
    if (!text.starts_with('<')) return {};
    text.remove_prefix(1);
    constexpr std::size_t longest = 40;
    return text.substr(0, std::min(text.find_first_of(" \t\r\n/>"), longest));
}

std::string descriptions_of(const auto& wanted) {
    std::string text;
    for (const topology_format& f : topology_formats())
        if (std::invoke(wanted, f)) text += fmt::format("{}{}", text.empty() ? "" : ", ", f.description);
    return text;
}

// A text that users mistake for the description of a machine, and a mark that no other text has.
struct other_text {
    std::string_view mark;
    std::string_view what;
    std::string_view instead;
};

constexpr std::string_view node_instead = "lstopo node.xml";
constexpr std::string_view gpus_instead = "nvidia-smi topo -m > node.txt, or lstopo node.xml";
constexpr std::string_view fabric_instead = "ibnetdiscover > fabric";

constexpr std::array other_texts{
    other_text{"ROCm System Management Interface", "rocm-smi prints", node_instead},
    other_text{"ROCm SMI", "rocm-smi prints", node_instead},
    other_text{"WEIGHT TABLE:", "amd-smi topology prints", node_instead},
    other_text{"= Chipset not supported", "nvidia-smi topo -p2p prints", gpus_instead},
    other_text{"| NVIDIA-SMI ", "nvidia-smi prints", gpus_instead},
    other_text{"\n\t Link 0: ", "nvidia-smi nvlink prints", gpus_instead},
    other_text{"\nCPU op-mode(s):", "lscpu prints", node_instead},
    other_text{"\nnode 0 cpus:", "numactl --hardware prints", node_instead},
    other_text{"\nMachine (", "lstopo prints as text", node_instead},
    other_text{" Host bridge: ", "lspci prints", node_instead},
    other_text{"\nprocessor\t: 0", "/proc/cpuinfo says", node_instead},
    other_text{"\n\tCA type: ", "ibstat prints", fabric_instead},
    other_text{"\nInfiniband device '", "ibstatus prints", fabric_instead},
    other_text{"\nhca_id:\t", "ibv_devinfo prints", fabric_instead},
    other_text{"\nlink mlx5_", "rdma link prints", fabric_instead},
    other_text{": <LOOPBACK,UP", "ip addr or ip link prints", "terrace-bench --detect -o cluster.yaml"},
    other_text{"\nNodeName=", "Slurm says of nodes", "scontrol show topology > topology.conf"},
    other_text{"\nPARTITION ", "sinfo prints", "scontrol show topology > topology.conf"},
    other_text{"\nNAME  ", "kubectl get nodes prints", "kubectl get nodes -o json > nodes.json"},
    other_text{"\napiVersion: ", "kubectl prints as YAML", "kubectl get nodes -o json > nodes.json"},
    other_text{"\n+--", "a program draws as a table", node_instead},
};

// @throws input_error for the texts in this table, and for XML after other lines
void refuse_other_texts(const std::string& file, std::string_view start) {
    const std::string text = fmt::format("\n{}", start);
    if (start.starts_with('<') || start.starts_with('{') || text.find("\nterrace_topology:") != text.npos) return;
    for (const other_text& o : other_texts)
        if (text.find(o.mark) != text.npos)
            throw input_error(
                file, 0, 0,
                fmt::format("this is what {}, which does not say enough of a machine; give what this writes: {}",
                            o.what, o.instead));
    if (text.find("\n<?xml ") != text.npos)
        throw input_error(file, 0, 0, "other lines stand before the XML; remove all that is above <?xml");
}

const topology_format* first_that_recognises(const source_start& start) {
    for (const topology_format& f : topology_formats())
        if (f.sniff(start)) return &f;
    return nullptr;
}

}  // namespace

std::span<const topology_format> topology_formats() {
#define TERRACE_ENTRY(name) name##_format(),
    static const auto& table = kept_for_ever(std::vector<topology_format>{TERRACE_TOPOLOGY_FORMATS(TERRACE_ENTRY)});
#undef TERRACE_ENTRY
    return table;
}

const topology_format* find_format(std::string_view name) {
    for (const topology_format& f : topology_formats())
        if (f.name == name) return &f;
    return nullptr;
}

std::string format_descriptions() {
    return descriptions_of([](const topology_format&) { return true; });
}

std::string network_descriptions() { return descriptions_of(&topology_format::describes_network); }

const topology_format& format_of(const std::string& source) {
    std::error_code ignored;
    if (!std::filesystem::exists(source, ignored))
        if (const topology_format* f = first_that_recognises({false, source, {}})) return *f;
    const std::string text = beginning(source);
    std::string_view start = text;
    if (start.starts_with(byte_order_mark)) start.remove_prefix(byte_order_mark.size());
    start = without_leading_blanks(start);
    refuse_other_texts(source, start);
    const std::string_view root = root_element(start);
    if (const topology_format* f = first_that_recognises({true, start, root})) return *f;
    throw input_error(source, 0, 0,
                      fmt::format("XML with root <{}> is no known format; known are: {}", root, format_descriptions()));
}

std::optional<link_unit> parse_link_unit(std::string_view text) noexcept {
    if (same_word(text, "gbit")) return link_unit::gbit;
    if (same_word(text, "mbit")) return link_unit::mbit;
    return {};
}

hardware read_node(const topology_format& format, const std::string& source) {
    return std::get<topology_format::of_node>(format.read)(source);
}

switch_network read_network(const topology_format& format, const std::string& source, const read_options& options) {
    if (!format.describes_network())
        throw usage_error(fmt::format("{}: this is {}, which does not say how nodes are connected; --network reads {}",
                                      source, format.description, network_descriptions()));
    return std::get<topology_format::of_network>(format.read)(source, options);
}

topology read_machine(const topology_format& format, const std::string& source, std::optional<rank_unit> ranks,
                      const read_options& options) {
    if (options.gpus && !format.describes_node())
        throw usage_error(
            fmt::format("{}: --gpu-fabric is for the description of one node; a cluster file says nvlink: RATE in its "
                        "node",
                        source));
    if (format.describes_network()) {
        network_levels levels = levels_of(read_network(format, source, options), {}, options.hosts);
        levels.machine.nics = {};  // each node is one rank, which would use only one of them
        levels.notes.push_back(
            "every node is one rank, as the file does not describe the inside of nodes; for ranks per node give a "
            "node's file, and this one with --network");
        return {name_of_source(source), std::move(levels.machine), nullptr, std::move(levels.notes)};
    }
    if (!format.describes_node()) return std::get<topology_format::of_machine>(format.read)(source, options);
    const std::string name = format.line.empty() ? name_of_source(source) : std::string(format.name);
    hardware parts = options.read_node(format, source);
    if (options.gpus) {
        if (!parts.wires.empty() && parts.wires_assumed.empty())
            throw usage_error(fmt::format("{} has the links between its GPUs; leave --gpu-fabric out", source));
        link_gpus(parts, *options.gpus);
    }
    return single_node(name, place_ranks(std::move(parts), ranks, source));
}

std::string name_of_source(const std::string& source) { return std::filesystem::path(source).stem().string(); }

}  // namespace terrace::detail
