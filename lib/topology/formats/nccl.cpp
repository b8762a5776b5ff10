#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <map>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <terrace/error.hpp>

#include "base/letters.hpp"
#include "base/text_parts.hpp"
#include "topology/formats.hpp"
#include "topology/formats/xml_file.hpp"
#include "topology/part_list.hpp"

namespace terrace::detail {

namespace {

// Returns the nominal rate of an NVLink per direction [B/s], by compute capability, from NVIDIA's data sheets.
double nvlink_rate(int sm) {
    if (sm < 70) return 20e9;
    if (sm == 86 || sm == 89) return 14.0625e9;
    return sm < 100 ? 25e9 : 50e9;
}

// Returns the same for a 16-bit xGMI link of AMD: gfx906 and gfx908 (23 GT/s), gfx90a (25), gfx942 (32), gfx950 (38.4).
// Returns 0 for others, whose rate is then assumed.
double xgmi_rate(int sm) {
    switch (sm) {
        case 90: return 46e9;
        case 91: return 50e9;
        case 94: return 64e9;
        case 95: return 76.8e9;
        default: return 0;
    }
}

// Returns the rate of one lane after its encoding [B/s]: "16 GT/s", "32.0 GT/s PCIe". Nothing if it is unknown.
std::optional<double> lane_rate(std::string_view text) {
    std::string_view unit;
    const auto transfers = leading_number<double>(text, &unit);
    if (!transfers || !unit.starts_with(" GT/s") || !(*transfers > 0) || *transfers > 1000) return {};
    return *transfers * 1e9 / 8 * (*transfers < 8 ? 0.8 : 128.0 / 130);
}

// Reads one node from an NCCL topology file (NCCL_TOPO_FILE, or as written to NCCL_TOPO_DUMP_FILE): `<system
// version="1">` with `<cpu>` (a NUMA node), `<pci>`, `<gpu>`, `<nvlink>`, `<nic>` and `<net>`. Facts that NCCL itself
// would find out at run time are unknown. @throws input_error with line and column
class nccl_reader {
public:
    explicit nccl_reader(const std::filesystem::path& path) : file_(path) {}

    hardware read() {
        const pugi::xml_node root = file_.document.document_element();
        if (std::strcmp(root.name(), "system") != 0)
            file_.fail(root, fmt::format("expected NCCL's <system>, found <{}>", root.name()));
        const std::string_view version = root.attribute("version").value();
        if (version != "1") file_.fail(root, fmt::format("NCCL topology version \"{}\" is not read, only 1", version));
        hardware h;
        h.machine.name = "machine";
        for (const pugi::xml_node& e : elements(root, {"cpu"}))
            h.machine.children.push_back({.what = part::kind::numa,
                                          .name = fmt::format("numa {}", number(e, "numaid", -1, 1 << 20)),
                                          .children = pci_parts(e)});
        if (h.machine.children.empty()) file_.fail(root, "the system has no <cpu>");
        number_gpus(h.machine);
        connect(h);
        return h;
    }

private:
    struct gpu_entry {
        std::string bus;
        std::optional<int> device;
    };
    struct link_entry {
        pugi::xml_node at;
        std::size_t gpu;
        std::string target;
        double rate;
    };

    // Returns the child elements. @throws input_error if one is not among `known`
    std::vector<pugi::xml_node> elements(const pugi::xml_node& parent,
                                         std::initializer_list<std::string_view> known) const {
        std::vector<pugi::xml_node> found;
        for (const pugi::xml_node& child : parent) {
            if (child.type() != pugi::node_element) file_.fail(child, fmt::format("text inside <{}>", parent.name()));
            if (std::find(known.begin(), known.end(), child.name()) == known.end())
                file_.fail(child, fmt::format("<{}> inside <{}> is not read; known there: {}", child.name(),
                                              parent.name(), fmt::join(known.begin(), known.end(), ", ")));
            found.push_back(child);
        }
        return found;
    }

    std::string required(const pugi::xml_node& e, const char* attribute) const {
        std::string text = e.attribute(attribute).value();
        if (text.empty()) file_.fail(e, fmt::format("<{}> has no {}", e.name(), attribute));
        return text;
    }

    int number(const pugi::xml_node& e, const char* attribute, int low, int high) const {
        const std::string text = required(e, attribute);
        const auto n = as_number<int>(text);
        if (!n || *n < low || *n > high)
            file_.fail(e, fmt::format("{} \"{}\" is not an integer from {} to {}", attribute, text, low, high));
        return *n;
    }

    std::vector<part> pci_parts(const pugi::xml_node& parent) {
        std::vector<part> parts;
        for (const pugi::xml_node& e : elements(parent, {"pci", "nic", "pcilink"})) {
            if (std::strcmp(e.name(), "pcilink") == 0) continue;  // a second path, which a tree cannot have
            std::vector<part> more = std::strcmp(e.name(), "nic") == 0 ? nic(e, nullptr) : pci(e);
            std::move(more.begin(), more.end(), std::back_inserter(parts));
        }
        return parts;
    }

    double link_of(const pugi::xml_node& e) const {
        const std::optional<double> lane = lane_rate(e.attribute("link_speed").value());
        if (!lane || !e.attribute("link_width")) return 0;
        return *lane * number(e, "link_width", 0, 64);
    }

    // Reads a PCI device: a GPU, a NIC, or a bridge with more devices behind it.
    std::vector<part> pci(const pugi::xml_node& e) {
        const std::string bus = required(e, "busid");
        const std::string kind = e.attribute("class").value();
        if (kind.empty())
            file_.fail(
                e,
                "<pci> has no class; NCCL itself looks it up: run any NCCL program on the node with this file in "
                "NCCL_TOPO_FILE and NCCL_TOPO_DUMP_FILE=node.xml, and give node.xml");
        const auto is = [&](std::string_view prefix) { return kind.starts_with(prefix); };
        if (is("0x0302") || is("0x0300") || is("0x0380") || is("0x1200")) return gpu(e, bus);
        if (is("0x02")) return nic(e, &kind);
        part p{.what = part::kind::bus_switch, .name = fmt::format("switch {}", bus), .link = link_of(e)};
        p.children = pci_parts(e);
        if (p.children.size() > 1) return list_of(std::move(p));
        // The bridge's link is part of the link of the only device behind it.
        if (!p.children.empty()) p.children.front().link = rate_in_series(p.children.front().link, p.link);
        return std::move(p.children);
    }

    // Returns the value of an attribute such as "0x20b0"; 0 if it is missing.
    static std::uint32_t hexadecimal(const pugi::xml_node& e, const char* attribute) {
        std::string_view text = e.attribute(attribute).value();
        if (text.starts_with("0x")) text.remove_prefix(2);
        std::uint16_t number = 0;
        std::from_chars(text.data(), text.data() + text.size(), number, 16);
        return number;
    }

    std::vector<part> gpu(const pugi::xml_node& e, const std::string& bus) {
        part p{.what = part::kind::gpu, .name = bus, .link = link_of(e)};
        p.pci = hexadecimal(e, "vendor") << 16 | hexadecimal(e, "device");
        gpu_entry entry{in_lower_case(bus), {}};
        const auto inner = elements(e, {"gpu"});
        if (inner.size() > 1) file_.fail(inner[1], "a second <gpu> in one <pci>");
        for (const pugi::xml_node& g : inner) {
            constexpr int not_in_the_job = -1;
            wires_known_ = true;  // NCCL itself wrote the links that it found
            if (g.attribute("dev")) entry.device = number(g, "dev", not_in_the_job, 1 << 20);
            if (entry.device == not_in_the_job) entry.device.reset();
            const int sm = g.attribute("sm") ? number(g, "sm", 10, 10'000) : 80;
            for (const pugi::xml_node& l : elements(g, {"nvlink", "xgmi", "c2c"})) {
                if (std::strcmp(l.name(), "c2c") == 0) continue;  // a link to the processor
                const bool xgmi = std::strcmp(l.name(), "xgmi") == 0;
                xgmi_ |= xgmi;
                // NCCL writes PCI class 0x068000 for an NVSwitch; processors have other classes.
                const std::string target_class = l.attribute("tclass").value();
                const bool to_switch = target_class.starts_with("0x0680");
                const bool to_gpu =
                    target_class.empty() || target_class.starts_with("0x03") || target_class.starts_with("0x12");
                if (!to_switch && !to_gpu) continue;
                links_.push_back({l, gpus_.size(), to_switch ? "" : in_lower_case(required(l, "target")),
                                  number(l, "count", 1, 1000) * (xgmi ? xgmi_rate(sm) : nvlink_rate(sm))});
            }
        }
        if (entry.device) p.name = fmt::format("cuda{}", *entry.device);
        gpus_.push_back(std::move(entry));
        return list_of(std::move(p));
    }

    // Reads a NIC: a part for each port. Without ports, a PCI device is one part, and a <nic> outside <pci> is none.
    std::vector<part> nic(const pugi::xml_node& e, const std::string* pci_class) {
        part p{.what = part::kind::nic, .link = link_of(e)};
        p.infiniband = pci_class && pci_class->starts_with("0x0207");
        p.rdma = p.infiniband;
        p.name = e.attribute("busid") ? e.attribute("busid").value() : "nic";
        std::vector<pugi::xml_node> ports;
        if (pci_class)
            for (const pugi::xml_node& n : elements(e, {"nic"}))
                for (const pugi::xml_node& port : elements(n, {"net"})) ports.push_back(port);
        else ports = elements(e, {"net"});
        if (ports.empty()) return pci_class ? list_of(std::move(p)) : std::vector<part>{};
        std::vector<part> result;
        for (const pugi::xml_node& port : ports) {
            part one_port = p;
            if (port.attribute("name")) one_port.name = port.attribute("name").value();
            if (!pci_class) one_port.infiniband = one_port.name.starts_with("mlx") || one_port.name.starts_with("ib");
            if (port.attribute("speed")) one_port.rate = number(port, "speed", 0, 100'000'000) * 1e6 / 8;
            one_port.rdma |= one_port.infiniband || port.attribute("gdr").as_bool();
            result.push_back(std::move(one_port));
        }
        if (result.size() == 1) return result;
        p.what = part::kind::slot;
        p.children = std::move(result);
        return list_of(std::move(p));
    }

    // Numbers GPUs by device number if all have one, else in the order on the bus.
    void number_gpus(part& machine) const {
        std::vector<std::size_t> order(gpus_.size());
        std::iota(order.begin(), order.end(), std::size_t{0});
        const bool numbered = std::ranges::all_of(gpus_, [](const gpu_entry& g) { return g.device.has_value(); });
        std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) {
            return numbered ? *gpus_[a].device < *gpus_[b].device : gpus_[a].bus < gpus_[b].bus;
        });
        const part_list parts(machine);
        const std::vector<int> places = parts.of_kind(part::kind::gpu);
        for (std::size_t i = 0; i < order.size(); ++i) parts[places[order[i]]].order = static_cast<int>(i);
    }

    void connect(hardware& h) const {
        std::map<std::string, int> by_bus;
        for (std::size_t i = 0; i < gpus_.size(); ++i)
            if (!by_bus.emplace(gpus_[i].bus, static_cast<int>(i)).second)
                throw input_error(file_.name, 0, 0, fmt::format("two GPUs have busid \"{}\"", gpus_[i].bus));
        h.wires_known = wires_known_;
        if (xgmi_) h.wire_name = "xgmi";
        for (const link_entry& l : links_) {
            int to = -1;
            if (!l.target.empty()) {
                const auto found = by_bus.find(l.target);
                if (found == by_bus.end()) file_.fail(l.at, fmt::format("there is no GPU with busid \"{}\"", l.target));
                to = found->second;
            }
            h.wires.push_back({static_cast<int>(l.gpu), to, l.rate});
        }
    }

    xml_file file_;
    std::vector<gpu_entry> gpus_;  // in the order of the file
    std::vector<link_entry> links_;
    bool xgmi_ = false;
    bool wires_known_ = false;
};

}  // namespace

topology_format nccl_format() {
    return {"nccl", "a node's NCCL topology XML", [](const source_start& start) { return start.root == "system"; },
            [](const std::string& file) { return nccl_reader(file).read(); }};
}

}  // namespace terrace::detail
