#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <terrace/error.hpp>

#include "base/disjoint_sets.hpp"
#include "base/document.hpp"
#include "base/index.hpp"
#include "base/letters.hpp"
#include "base/text_check.hpp"
#include "base/text_parts.hpp"
#include "topology/formats.hpp"
#include "topology/part_list.hpp"
#include "topology/words.hpp"

namespace terrace::detail {

namespace {

constexpr std::size_t max_nvidia_smi = 1 << 20;
constexpr std::size_t most_devices = 256;
constexpr double one_nvlink = 25e9;  // per direction: V100, A100, H100 [B/s]
constexpr int most_nvlinks = 18;     // of one GPU

// Distance between two devices, from near to far; nvidia-smi's legend defines the values.
enum class nearness { same_switch, switches, host_bridge, numa, system };

// Returns the text without the escapes by which a terminal colours and underlines.
std::string plain_text(std::string_view text) {
    std::string plain;
    for (std::size_t i = 0; i < text.size(); ++i) {
        if (text[i] != '\x1b') plain += text[i];
        else
            while (i + 1 < text.size() && !is_letter(text[i])) ++i;
    }
    return plain;
}

bool is_gpu(std::string_view name) { return name.starts_with("GPU") && name.size() > 3 && is_digit(name[3]); }
bool is_nic(std::string_view name) {
    return (name.starts_with("NIC") && name.size() > 3 && is_digit(name[3])) || name.starts_with("mlx");
}

class nvidia_smi_reader {
public:
    explicit nvidia_smi_reader(const std::string& file) : file_(file) {
        const std::string text = plain_text(read_text(file, max_nvidia_smi));
        check_text(text, file);
        for_each_line(text, [&](std::string_view line, int number) { read_line(line, number); });
        if (devices_.empty()) fail(0, "no line with GPU0 GPU1 ...; print the matrix with nvidia-smi topo -m");
        for (const device& d : devices_)
            if (is_gpu(d.name) && !d.has_row) fail(0, fmt::format("{} has no line; print the whole matrix", d.name));
    }

    hardware read() {
        hardware h;
        h.machine.name = "machine";
        h.wires_known = true;
        find_numa();
        std::map<int, std::vector<int>> nodes;
        for (std::size_t i = 0; i < devices_.size(); ++i) nodes[devices_[i].numa].push_back(static_cast<int>(i));
        for (const auto& [numa, members] : nodes) {
            std::vector<part> parts = joined(members, nearness::host_bridge);
            if (numa != unknown_numa)
                parts = list_of(
                    {.what = part::kind::numa, .name = fmt::format("numa {}", numa), .children = std::move(parts)});
            std::move(parts.begin(), parts.end(), std::back_inserter(h.machine.children));
        }
        std::map<int, int> gpus;  // by device: its number in the tree
        const part_list all(h.machine);
        for (const int i : all.of_kind(part::kind::gpu)) gpus.emplace(all[i].order, static_cast<int>(gpus.size()));
        add_wires(h, gpus);
        return h;
    }

private:
    static constexpr int unknown_numa = 1 << 30;

    struct device {
        std::string name;
        std::string adapter = {};  // NICs: name in the kernel
        int numa = unknown_numa;
        bool has_row = false;
    };
    struct cell {
        nearness near = nearness::system;
        int links = 0;  // NVLinks; if there are any, PCIe is unknown
    };

    [[noreturn]] void fail(int line, const std::string& message) const {
        throw input_error(file_, line, line > 0 ? 1 : 0, message);
    }

    std::optional<int> find(std::string_view name) const {
        for (std::size_t i = 0; i < devices_.size(); ++i)
            if (devices_[i].name == name) return static_cast<int>(i);
        return {};
    }

    void read_line(std::string_view line, int number) {
        const std::vector<std::string_view> cells = split_at_blanks(line);
        if (cells.empty()) return;
        if (devices_.empty()) {
            if (is_gpu(cells.front())) read_header(cells, number);
        } else if (cells.size() == 2 && cells.front().ends_with(':')) {  // NIC0: mlx5_0
            if (const auto d = find(cells.front().substr(0, cells.front().size() - 1)))
                devices_[at(*d)].adapter = std::string(cells[1]);
        } else if (const auto row = find(cells.front())) {
            read_row(*row, line, cells, number);
        }
    }

    void read_header(const std::vector<std::string_view>& cells, int line) {
        for (const std::string_view name : cells) {
            if (!is_gpu(name) && !is_nic(name)) break;  // "CPU Affinity" follows the devices
            if (find(name)) fail(line, fmt::format("{} is there twice", name));
            devices_.push_back({std::string(name)});
        }
        if (devices_.size() > most_devices) fail(line, fmt::format("more than {} devices", most_devices));
        matrix_.assign(devices_.size(), std::vector<cell>(devices_.size()));
    }

    void read_row(int row, std::string_view line, const std::vector<std::string_view>& cells, int number) {
        if (std::exchange(devices_[at(row)].has_row, true))
            fail(number, fmt::format("{} has two lines", devices_[at(row)].name));
        if (cells.size() <= devices_.size())
            fail(number, fmt::format("{} has {} cells, but there are {} devices", devices_[at(row)].name,
                                     cells.size() - 1, devices_.size()));
        for (std::size_t c = 0; c < devices_.size(); ++c) {
            const std::string_view text = cells[c + 1];
            if (text == "X") continue;
            const cell value = read_cell(text, number);
            matrix_[at(row)][c] = matrix_[c][at(row)] = value;
        }
        if (const auto numa = numa_in(line, cells)) devices_[at(row)].numa = *numa;
    }

    cell read_cell(std::string_view text, int line) const {
        constexpr std::pair<std::string_view, nearness> words[] = {
            {"PIX", nearness::same_switch}, {"PXB", nearness::switches}, {"PHB", nearness::host_bridge},
            {"NODE", nearness::numa},       {"SOC", nearness::system},   {"SYS", nearness::system}};
        for (const auto& [word, near] : words)
            if (text == word) return {near};
        const auto links = text.starts_with("NV") ? as_number<int>(text.substr(2)) : std::nullopt;
        if (links && *links > 0 && *links <= most_nvlinks) return {nearness::system, *links};
        fail(line, fmt::format("\"{}\" is none of NV1 to NV{}, PIX, PXB, PHB, NODE and SYS", text.substr(0, 20),
                               most_nvlinks));
    }

    // Returns the NUMA node, which follows the CPU affinity. If tabs separate the cells, the affinity may be empty.
    std::optional<int> numa_in(std::string_view line, const std::vector<std::string_view>& cells) const {
        std::string_view text;
        std::size_t tab = line.find('\t');
        if (tab != line.npos) {
            for (std::size_t c = 0; c < devices_.size() + 1 && tab != line.npos; ++c) tab = line.find('\t', tab + 1);
            if (tab == line.npos) return {};
            text = line.substr(tab + 1);
        } else if (cells.size() > devices_.size() + 2) {
            text = cells[devices_.size() + 2];
        }
        const auto numa = leading_number<int>(text);
        return numa && *numa >= 0 && *numa < unknown_numa ? numa : std::nullopt;
    }

    // Gives NICs, and GPUs whose line has no NUMA node, the one of the nearest device whose NUMA node is known.
    void find_numa() {
        const std::vector<device> told = devices_;
        for (std::size_t i = 0; i < devices_.size(); ++i) {
            if (told[i].numa != unknown_numa) continue;
            nearness best = nearness::system;
            for (std::size_t j = 0; j < devices_.size(); ++j)
                if (told[j].numa != unknown_numa && matrix_[i][j].near < best) {
                    best = matrix_[i][j].near;
                    devices_[i].numa = told[j].numa;
                }
        }
    }

    // Makes one part of all devices within this distance of one another; inside it, parts of nearer devices.
    std::vector<part> joined(const std::vector<int>& members, nearness within) {
        std::vector<part> parts;
        for (const auto& [first, group] : groups(members, within)) {
            std::vector<part> inner;
            if (within == nearness::same_switch)
                for (const int d : group) inner.push_back(device_part(d));
            else inner = joined(group, static_cast<nearness>(static_cast<int>(within) - 1));
            if (inner.size() == 1) {
                parts.push_back(std::move(inner.front()));
                continue;
            }
            const bool host = within == nearness::host_bridge;
            parts.push_back({.what = host ? part::kind::root : part::kind::bus_switch,
                             .name = fmt::format("{} of {}", host ? "host bridge" : "switch", devices_[at(first)].name),
                             .children = std::move(inner)});
        }
        return parts;
    }

    // Returns the groups by their first members. The members of a group ascend.
    std::map<int, std::vector<int>> groups(const std::vector<int>& members, nearness within) const {
        disjoint_sets sets(static_cast<int>(devices_.size()));
        for (const int a : members)
            for (const int b : members)
                if (matrix_[at(a)][at(b)].near <= within) sets.merge(a, b);
        std::map<int, std::vector<int>> all;
        for (const int m : members) all[sets.find(m)].push_back(m);
        return all;
    }

    part device_part(int d) const {
        const device& of = devices_[at(d)];
        if (is_gpu(of.name)) return {.what = part::kind::gpu, .name = of.name, .order = d};
        part nic{.what = part::kind::nic, .name = of.adapter.empty() ? of.name : of.adapter, .order = d};
        nic.infiniband = nic.name.starts_with("mlx") || nic.name.starts_with("ib");
        nic.rdma = true;
        return nic;
    }

    // Adds wires. If some GPU's links add up to more than a GPU can have, rows repeat the same links to switches.
    void add_wires(hardware& h, const std::map<int, int>& gpus) const {
        int most = 0;
        for (const auto& [d, g] : gpus) {
            int all = 0;
            for (const auto& [other, o] : gpus) all += matrix_[at(d)][at(other)].links;
            most = std::max(most, all);
        }
        for (const auto& [d, g] : gpus) {
            int own = 0;
            for (const auto& [other, o] : gpus) {
                const int links = matrix_[at(d)][at(other)].links;
                own = std::max(own, links);
                if (links > 0 && most <= most_nvlinks) h.wires.push_back({g, o, links * one_nvlink});
            }
            if (own > 0 && most > most_nvlinks) h.wires.push_back({g, -1, own * one_nvlink});
        }
        if (!h.wires.empty()) h.wires_assumed = "25 GB/s for each NVLink, as V100, A100 and H100 have; B200 has 50";
    }

    std::string file_;
    std::vector<device> devices_;
    std::vector<std::vector<cell>> matrix_;
};

// True if the first line begins with the name of a GPU, as the matrix begins with the names of its columns.
bool is_nvidia_smi(const source_start& start) {
    if (!start.is_file) return false;
    const std::string text = plain_text(start.text.substr(0, 4096));
    const std::vector<std::string_view> cells = split_at_blanks(std::string_view(text).substr(0, text.find('\n')));
    return !cells.empty() && is_gpu(cells.front());
}

}  // namespace

topology_format nvidia_smi_format() {
    return {"nvidia_smi", "a node's nvidia-smi topo -m", is_nvidia_smi,
            [](const std::string& file) { return nvidia_smi_reader(file).read(); }};
}

}  // namespace terrace::detail
