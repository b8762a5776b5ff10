#include "topology/gpu_links.hpp"

#include <algorithm>
#include <array>
#include <cstdint>

#include <fmt/format.h>

#include "base/units.hpp"
#include "machine/hierarchy_yaml.hpp"

namespace terrace::detail {

namespace {

constexpr std::string_view no_wires = "none";  // name of the fabric of GPUs without direct links

struct gpu_model {
    std::uint32_t pci;  // vendor, device
    std::string_view name;
    double links;  // all links of one GPU, per direction, by NVIDIA's data sheets [B/s]; 0: it has none
};

// Models whose boards link all GPUs of a node, by switches or one to one, and models without links. P100 and V100 SXM2
// are missing, as boards link them in several ways, and so are models that a bridge may link in pairs.
constexpr std::array models{
    gpu_model{0x10de1db8, "V100 SXM3", 150e9},
    gpu_model{0x10de20b0, "A100 SXM4", 300e9},
    gpu_model{0x10de20b2, "A100 SXM4", 300e9},
    gpu_model{0x10de20b3, "A100 SXM", 300e9},
    gpu_model{0x10de20f3, "A800 SXM4", 200e9},
    gpu_model{0x10de2324, "H800 SXM5", 200e9},
    gpu_model{0x10de2330, "H100 SXM5", 450e9},
    gpu_model{0x10de2335, "H200 SXM", 450e9},
    gpu_model{0x10de2901, "B200", 900e9},
    gpu_model{0x10de1eb8, "T4", 0},
    gpu_model{0x10de27b8, "L4", 0},
};

// Stands for all NVIDIA models before GP100, whose device ids begin here. They have no links.
constexpr gpu_model before_links{0x10de15f0, "older than P100", 0};

void each_gpu(const part& p, const auto& call) {
    if (p.what == part::kind::gpu) call(p);
    for (const part& c : p.children) each_gpu(c, call);
}

// Returns the model of all GPUs; null if they differ or the model is unknown.
const gpu_model* model_of_all(const part& machine) {
    std::uint32_t pci = 0;
    bool alike = true, old = true;
    each_gpu(machine, [&](const part& gpu) {
        if (pci == 0) pci = gpu.pci;
        alike &= gpu.pci == pci;
        old &= gpu.pci >> 16 == before_links.pci >> 16 && gpu.pci < before_links.pci;
    });
    if (pci != 0 && old) return &before_links;
    const auto found = std::ranges::find(models, pci, &gpu_model::pci);
    return alike && found != models.end() ? &*found : nullptr;
}

void add_wires_to_switches(hardware& h, double rate) {
    int gpus = 0;
    each_gpu(h.machine, [&](const part&) { h.wires.push_back({gpus++, -1, rate}); });
}

}  // namespace

std::optional<gpu_fabric> parse_gpu_fabric(std::string_view text) {
    if (text == no_wires) return gpu_fabric{std::string(no_wires)};
    const std::size_t colon = text.find(':');
    const std::string_view name = text.substr(0, colon);
    if (colon == text.npos || (name != "nvlink" && name != "xgmi" && name != "xelink")) return {};
    const std::optional<double> rate = parse_bandwidth(text.substr(colon + 1));
    if (!rate || !(*rate >= slowest_link) || *rate > fastest_link) return {};
    return gpu_fabric{std::string(name), *rate};
}

void link_gpus(hardware& h, const gpu_fabric& by) {
    h.wires_known = true;
    h.wires.clear();
    h.wires_assumed.clear();
    h.wire_name = by.name;
    if (by.name == no_wires) return;
    add_wires_to_switches(h, by.rate);
}

void assume_gpu_links(hardware& h) {
    if (!h.wires.empty() || h.wires_known) return;
    const gpu_model* model = model_of_all(h.machine);
    if (!model) return;
    h.wires_known = model->links <= 0;
    if (h.wires_known) return;
    h.wires_assumed = fmt::format("the file lists none, and their model ({}) has them", model->name);
    add_wires_to_switches(h, model->links);
}

void remark_on_gpu_links(const hardware& h, std::vector<std::string>& notes, std::vector<std::string>& warnings) {
    int gpus = 0;
    bool with_ranks = false;
    each_gpu(h.machine, [&](const part& gpu) {
        ++gpus;
        with_ranks |= gpu.rank >= 0;
    });
    if (gpus < 2 || !with_ranks) return;
    if (!h.wires_assumed.empty()) {
        double all = 0;  // rate of all links of the first GPU [B/s]
        for (const hardware::wire& w : h.wires)
            if (w.from == h.wires.front().from) all += w.rate;
        notes.push_back(
            fmt::format("the rate of the links between the GPUs, {}, is assumed: {}; --gpu-fabric says otherwise",
                        format_bandwidth(all), h.wires_assumed));
    }
    if (!h.wires.empty() || !h.wires_assumed.empty()) return;
    const gpu_model* const model = model_of_all(h.machine);
    if (h.wires_known && model && model->links > 0 && h.wire_name != no_wires)
        notes.push_back(
            fmt::format("the file lists no NVLink between the {} GPUs of a node, which are planned over PCIe; their "
                        "model ({}) has it. If it works here, --gpu-fabric nvlink:{:g}GB/s",
                        gpus, model->name, model->links / 1e9));
    if (!h.wires_known)
        warnings.push_back(
            fmt::format("the file says nothing of NVLink or xGMI between the {} GPUs of a node, and they are taken to "
                        "have none. NCCL's files of clouds leave it out, and lstopo without the GPU's driver does. If "
                        "there is any, give the rate of all links of one GPU, per direction, as in --gpu-fabric "
                        "nvlink:300GB/s (A100 SXM; nvidia-smi nvlink -s lists a GPU's links), or in a cluster file "
                        "nvlink: RATE; if there is none, --gpu-fabric none",
                        gpus));
}

}  // namespace terrace::detail
