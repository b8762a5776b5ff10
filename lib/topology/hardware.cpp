#include "topology/hardware.hpp"

#include <array>

#include <nlohmann/json.hpp>

namespace terrace::detail {

namespace {

using value = nlohmann::json;

value part_json(const part& p) {
    value children = value::array();
    for (const part& c : p.children) children.push_back(part_json(c));
    return value::array(
        {static_cast<int>(p.what), p.name, p.order, p.link, p.rate, p.infiniband, p.rdma, p.pci, std::move(children)});
}

part part_from(const value& j) {
    part p;
    p.what = static_cast<part::kind>(j.at(0).get<int>());
    p.name = j.at(1).get<std::string>();
    p.order = j.at(2).get<int>();
    p.link = j.at(3).get<double>();
    p.rate = j.at(4).get<double>();
    p.infiniband = j.at(5).get<bool>();
    p.rdma = j.at(6).get<bool>();
    p.pci = j.at(7).get<std::uint32_t>();
    p.children.reserve(j.at(8).size());
    for (const value& c : j.at(8)) p.children.push_back(part_from(c));
    return p;
}

}  // namespace

std::string_view to_string(part::kind k) noexcept {
    constexpr std::array<std::string_view, 10> names{"machine", "package", "numa", "cache", "root complex",
                                                     "switch",  "slot",    "gpu",  "nic",   "core"};
    return names[static_cast<std::size_t>(k)];
}

std::string write_hardware(const hardware& h) {
    value wires = value::array();
    for (const hardware::wire& w : h.wires) wires.push_back(value::array({w.from, w.to, w.rate}));
    // Names come from files: bytes that are not UTF-8 are replaced.
    return value::array({part_json(h.machine), h.wire_name, std::move(wires), h.wires_known, h.wires_assumed, h.notes})
        .dump(-1, ' ', false, value::error_handler_t::replace);
}

hardware read_hardware(std::string_view text) {
    const value all = value::parse(text);
    hardware h;
    h.machine = part_from(all.at(0));
    h.wire_name = all.at(1).get<std::string>();
    for (const value& w : all.at(2)) h.wires.push_back({w.at(0).get<int>(), w.at(1).get<int>(), w.at(2).get<double>()});
    h.wires_known = all.at(3).get<bool>();
    h.wires_assumed = all.at(4).get<std::string>();
    h.notes = all.at(5).get<std::vector<std::string>>();
    return h;
}

}  // namespace terrace::detail
