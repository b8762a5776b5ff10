#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>
#include <tuple>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <terrace/error.hpp>

#include "base/index.hpp"
#include "base/partition.hpp"
#include "base/text_parts.hpp"
#include "tools/common/spelling.hpp"
#include "tools/terrace/exports/formats.hpp"
#include "topology/formats/xml_file.hpp"

namespace terrace::detail {

namespace {

// Writes nested zones, one per domain. Each zone has a router, in a separate zone, as its gateway. A node with NICs has
// a second router behind its NICs as its outer gateway, so a rank's messages to other nodes pass the rank's own NIC.
class platform {
public:
    explicit platform(const hierarchy& machine) : machine_(machine) {}

    std::string write(const std::string& name) {
        out_ = fmt::format(
            "<?xml version=\"1.0\"?>\n<!DOCTYPE platform SYSTEM "
            "\"https://simgrid.org/simgrid.dtd\">\n"
            "<!-- {}: ranks are the hosts rank0 to rank{}; made by terrace export. -->\n<platform version=\"4.1\">\n",
            in_markup(name), machine_.ranks() - 1);
        if (machine_.has_torus()) torus();
        else zone(machine_.depth() - 1, 0, 1);
        return std::move(out_) + "</platform>\n";
    }

private:
    static std::string zone_id(int level, int domain) { return fmt::format("zone{}_{}", level, domain); }
    static std::string hub_id(int level, int domain) { return fmt::format("hub{}_{}", level, domain); }
    static std::string router_id(int level, int domain) { return fmt::format("router{}_{}", level, domain); }
    static std::string link_id(int level, int child) { return fmt::format("link{}_{}", level, child); }
    static std::string nic_id(int nic) { return fmt::format("nic{}", nic); }

    // Messages that meet at this level use the links of all levels up to it, one on each side.
    double link_latency(int level) const {
        const double below = level == 0 ? 0 : machine_.levels[at(level - 1)].latency;
        return std::max(0.0, machine_.levels[at(level)].latency - below) / 2;
    }

    // Return the zone of a child of a level, and its gateway.
    static std::string inner_zone(int level, int child) {
        return level == 0 ? fmt::format("zone_rank{}", child) : zone_id(level - 1, child);
    }
    std::string inner_gate(int level, int child) const {
        if (level == 0) return fmt::format("rank{}", child);
        return has_nics(level - 1) ? outer_router_id(child) : router_id(level - 1, child);
    }
    bool has_nics(int level) const { return !machine_.nics.empty() && level == machine_.node_levels() - 1; }
    static std::string outer_hub_id(int node) { return fmt::format("outside{}", node); }
    static std::string outer_router_id(int node) { return fmt::format("router_outside{}", node); }

    // Returns the NIC that all ranks of a node's child use.
    int nic_of(int level, int child) const {
        const int first = level == 0 ? child : machine_.shape.first_rank(level - 1, child);
        const int end = level == 0 ? child + 1 : machine_.shape.first_rank(level - 1, child + 1);
        for (int rank = first + 1; rank < end; ++rank)
            if (machine_.nics.of(rank) != machine_.nics.of(first))
                throw usage_error(
                    fmt::format("terrace export: simgrid: ranks {} and {} are in one {} and use two NICs; "
                                "a zone of SimGrid has one way out",
                                first, rank, machine_.levels[at(level - 1)].name));
        return machine_.nics.of(first);
    }

    void child_zone(int level, int child, int depth) {
        if (level > 0) return zone(level - 1, child, depth);
        out_ +=
            fmt::format("{:{}}<zone id=\"zone_rank{}\" routing=\"None\"><host id=\"rank{}\" speed=\"1Gf\"/></zone>\n",
                        "", 2 * depth, child, child);
    }

    // Writes one zone of all nodes, each with a link to the next node in every dimension. Messages take the shortest
    // way, and each link costs a start-up.
    void torus() {
        const int first = machine_.torus_level(), nodes = machine_.shape.members(first);
        const double inside = first == 0 ? 0 : machine_.levels[at(first - 1)].latency;
        out_ += "  <zone id=\"torus\" routing=\"Floyd\">\n";
        for (int n = 0; n < nodes; ++n) child_zone(first, n, 2);
        std::string routes;
        for (int l = first, stride = 1; l < machine_.depth(); stride *= machine_.shape.children(l, 0), ++l) {
            const int size = machine_.shape.children(l, 0);
            const double rate = machine_.levels[at(l)].bandwidth * machine_.ring_share(l) / stride;
            for (int n = 0; n < nodes; ++n) {
                const int place = wrap(n / stride, size), next = n + stride * (wrap(place + 1, size) - place);
                if (size == 1 || (size == 2 && place == 1)) continue;  // one link between two nodes
                const std::string id = link_id(l, n);
                out_ += "    " + link(id, rate, std::max(0.0, machine_.levels[at(l)].latency - inside)) + "\n";
                for (const auto& [from, to, direction] : {std::tuple(n, next, "UP"), std::tuple(next, n, "DOWN")})
                    routes += "    " +
                              route(inner_zone(first, from), inner_gate(first, from), inner_zone(first, to),
                                    inner_gate(first, to), over(id, direction)) +
                              "\n";
            }
        }
        out_ += routes + "  </zone>\n";
    }

    // These functions return elements of the file.
    static std::string link(const std::string& id, double rate, double latency) {
        return fmt::format(
            "<link id=\"{}\" bandwidth=\"{:.9g}Bps\" latency=\"{:.9g}s\" sharing_policy=\"SPLITDUPLEX\"/>", id, rate,
            latency);
    }
    static std::string hub(const std::string& id, const std::string& router) {
        return fmt::format("<zone id=\"{}\" routing=\"None\"><router id=\"{}\"/></zone>", id, router);
    }
    static std::string route(const std::string& from, const std::string& gate_from, const std::string& to,
                             const std::string& gate_to, const std::string& links) {
        return fmt::format(
            "<zoneRoute src=\"{}\" dst=\"{}\" gw_src=\"{}\" gw_dst=\"{}\" symmetrical=\"NO\">{}</zoneRoute>", from, to,
            gate_from, gate_to, links);
    }
    static std::string over(const std::string& id, const char* direction) {
        return fmt::format("<link_ctn id=\"{}\" direction=\"{}\"/>", id, direction);
    }

    void zone(int level, int domain, int depth) {
        const std::string indent(at(2 * depth), ' ');
        const auto line = [&](const std::string& text) { out_ += indent + "  " + text + "\n"; };
        out_ += fmt::format("{}<zone id=\"{}\" routing=\"Floyd\">\n", indent, zone_id(level, domain));
        const int first = machine_.shape.first_child(level, domain);
        const int last = machine_.shape.first_child(level, domain + 1);
        for (int child = first; child < last; ++child) child_zone(level, child, depth + 1);
        const std::string own_hub = hub_id(level, domain), own_router = router_id(level, domain);
        const std::string outer_hub = outer_hub_id(domain), outer_router = outer_router_id(domain);
        line(hub(own_hub, own_router));
        for (int child = first; child < last; ++child)
            line(link(link_id(level, child), machine_.rate(level, child), link_latency(level)));
        if (has_nics(level)) {
            line(hub(outer_hub, outer_router));
            for (int nic = machine_.nics.first_of(domain); nic < machine_.nics.first_of(domain + 1); ++nic)
                line(link(nic_id(nic), machine_.nics.rate(nic), 0));
        }
        for (int child = first; child < last; ++child) {
            const std::string inner = inner_zone(level, child), gate = inner_gate(level, child);
            const std::string up = over(link_id(level, child), "UP"), down = over(link_id(level, child), "DOWN");
            line(route(inner, gate, own_hub, own_router, up));
            line(route(own_hub, own_router, inner, gate, down));
            if (!has_nics(level)) continue;
            const std::string nic = nic_id(nic_of(level, child));
            line(route(inner, gate, outer_hub, outer_router, up + over(nic, "UP")));
            line(route(outer_hub, outer_router, inner, gate, over(nic, "DOWN") + down));
        }
        out_ += indent + "</zone>\n";
    }

    const hierarchy& machine_;
    std::string out_;
};

// Reads output of the writer above: zones with their contents, and routes from one gate to another.
class platform_reader {
public:
    explicit platform_reader(const named_text& file) : xml_(file.name, file.text) {}

    plan_facts read() {
        const pugi::xml_node all = xml_.document.child("platform");
        read_all(all);
        for (const auto& [name, route] : names_)
            if (!known_.contains(name)) xml_.fail(route, fmt::format("no {:?}", name));
        std::size_t hosts = 0;
        while (known_.contains(fmt::format("rank{}", hosts))) ++hosts;
        if (hosts == 0 || hosts != hosts_) xml_.fail(all, fmt::format("{} hosts, but no rank{}", hosts_, hosts));
        for (const bool back : {false, true}) {
            const std::set<std::string> reached = reached_by("rank0", back);
            for (std::size_t rank = 0; rank < hosts; ++rank)
                if (!reached.contains(fmt::format("rank{}", rank)))
                    xml_.fail(all, fmt::format("no way between rank0 and rank{}", rank));
        }
        std::ranges::sort(made_.lines);
        made_.says = fmt::format("{} hosts, a way between any two", hosts);
        return std::move(made_);
    }

private:
    std::string text(const pugi::xml_node& node, const char* name) const {
        if (!node.attribute(name)) xml_.fail(node, fmt::format("no {:?}", name));
        return node.attribute(name).value();
    }

    // Checks a number with a unit.
    void expect_number(const pugi::xml_node& node, const char* name, std::string_view unit) const {
        std::string_view value = node.attribute(name).value();
        const bool has_unit = value.ends_with(unit);
        if (has_unit) value.remove_suffix(unit.size());
        const auto found = as_number<double>(value);
        if (!has_unit || !found || !std::isfinite(*found) || *found < 0)
            xml_.fail(node, fmt::format("{} is no number of {}", name, unit));
    }

    // Reads an element inside the elements `around`. The links of a route have an order.
    void read_all(const pugi::xml_node& node, const std::string& around = "") {
        std::set<std::string> values;
        for (const pugi::xml_attribute& a : node.attributes()) values.insert(fmt::format("{}={}", a.name(), a.value()));
        made_.lines.push_back(fmt::format("{}{} {}", around, node.name(), fmt::join(values, " ")));
        const std::string_view kind = node.name();
        if (kind == "zoneRoute") {
            for (const char* end : {"src", "dst", "gw_src", "gw_dst"}) names_.emplace(text(node, end), node);
            ways_[0][text(node, "gw_src")].insert(text(node, "gw_dst"));
            ways_[1][text(node, "gw_dst")].insert(text(node, "gw_src"));
        } else if (kind == "link_ctn") {
            names_.emplace(text(node, "id"), node);
        } else if (kind == "zone" || kind == "host" || kind == "router" || kind == "link") {
            if (!known_.insert(text(node, "id")).second) xml_.fail(node, fmt::format("{:?} again", text(node, "id")));
            if (kind == "host") ++hosts_;
            if (kind == "link") expect_number(node, "bandwidth", "Bps"), expect_number(node, "latency", "s");
        } else if (kind != "platform") {
            xml_.fail(node, fmt::format("{:?} is not read", kind));
        }
        const std::string inside = made_.lines.back();
        for (int place = 0; const pugi::xml_node& inner : node.children())
            read_all(inner, fmt::format("{} / {}", inside, kind == "zoneRoute" ? fmt::format("{} ", place++) : ""));
    }

    std::set<std::string> reached_by(const std::string& first, bool back) {
        std::vector<std::string> open{first};
        std::set<std::string> found{first};
        while (!open.empty()) {
            const std::string here = std::move(open.back());
            open.pop_back();
            for (const std::string& next : ways_[back][here])
                if (found.insert(next).second) open.push_back(next);
        }
        return found;
    }

    xml_file xml_;
    std::set<std::string> known_;
    std::map<std::string, pugi::xml_node> names_;                       // names in routes
    std::array<std::map<std::string, std::set<std::string>>, 2> ways_;  // from gate to gate, and back
    std::size_t hosts_ = 0;
    plan_facts made_;
};

}  // namespace

plan_facts read_simgrid(const named_text& file) { return platform_reader(file).read(); }

std::string simgrid_platform(const plan_data& plan, const export_options&) {
    return platform(plan.machine).write(plan.name);
}

}  // namespace terrace::detail
