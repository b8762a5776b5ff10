#include "topology/describe.hpp"

#include <algorithm>
#include <cstddef>
#include <map>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "base/units.hpp"

namespace terrace {

namespace {

using json = nlohmann::ordered_json;

std::size_t at(int i) { return static_cast<std::size_t>(i); }

std::string counted(int n, std::string_view what) { return fmt::format("{} {}{}", n, what, n == 1 ? "" : "s"); }

std::string marked(const std::string& value, bool assumed) { return assumed ? value + " (assumed)" : value; }

// ---- Text -----------------------------------------------------------------------------------------------------------

std::string level_table(const hierarchy& h) {
    std::vector<std::vector<std::string>> rows{{"level", "fabric", "bandwidth", "latency", "overhead"}};
    for (const level& l : h.levels)
        rows.push_back({l.name, std::string(to_string(l.medium)),
                        marked(format_bandwidth(l.bandwidth), l.bandwidth_assumed),
                        marked(format_duration(l.latency), l.latency_assumed),
                        marked(format_duration(l.overhead), l.overhead_assumed)});
    std::vector<std::size_t> widths(rows.front().size(), 0);
    for (const auto& row : rows)
        for (std::size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], row[c].size());
    std::string text;
    for (const auto& row : rows) {
        for (std::size_t c = 0; c + 1 < row.size(); ++c) text += fmt::format("{:<{}}  ", row[c], widths[c]);
        text += row.back() + "\n";
    }
    return text;
}

// Says which domains look alike: like(l, a) == like(l, b) where domains a and b of level l nest equally.
class likeness {
public:
    explicit likeness(const tree& t) {
        for (int l = 0; l < t.depth(); ++l) {
            std::map<std::vector<int>, int> seen;
            std::vector<int>& classes = classes_.emplace_back();
            for (int d = 0; d < t.domains(l); ++d) {
                std::vector<int> parts{t.children(l, d)};
                if (l > 0)
                    parts.assign(classes_[at(l - 1)].begin() + t.first_child(l, d),
                                 classes_[at(l - 1)].begin() + t.first_child(l, d + 1));
                classes.push_back(seen.emplace(std::move(parts), static_cast<int>(seen.size())).first->second);
            }
        }
    }
    int of(int l, int d) const { return classes_[at(l)][at(d)]; }

private:
    std::vector<std::vector<int>> classes_;
};

// Appends `count` equal domains, of which d is the first, and what is in one of them.
void append_domains(std::string& text, const hierarchy& h, const likeness& like, int l, int d, int count) {
    const tree& t = h.shape;
    const int indent = 2 * (t.depth() - l);
    text += fmt::format("{:{}}{}{}", "", indent, count > 1 ? fmt::format("{} x ", count) : "", h.levels[at(l)].name);
    if (l == 0) {
        text += fmt::format(" of {}\n", counted(t.children(l, d), "rank"));
        return;
    }
    text += "\n";
    const int end = t.first_child(l, d + 1);
    for (int first = t.first_child(l, d), next = first; first < end; first = next) {
        while (next < end && like.of(l - 1, next) == like.of(l - 1, first)) ++next;
        append_domains(text, h, like, l - 1, first, next - first);
    }
}

// ---- JSON -----------------------------------------------------------------------------------------------------------

json level_json(const hierarchy& h, int l) {
    const level& v = h.levels[at(l)];
    json assumed = json::array();
    if (v.bandwidth_assumed) assumed.push_back("bandwidth");
    if (v.latency_assumed) assumed.push_back("latency");
    if (v.overhead_assumed) assumed.push_back("overhead");
    return {{"name", v.name},
            {"fabric", to_string(v.medium)},
            {"bandwidth_bytes_per_s", v.bandwidth},
            {"latency_s", v.latency},
            {"overhead_s", v.overhead},
            {"assumed", std::move(assumed)},
            {"node_level", l < h.node_levels()}};
}

json node_json(std::string_view kind, const std::string& name) {
    return {{"kind", kind}, {"name", name}, {"children", json::array()}};
}

// What is directly below domain d of level l.
json children_json(const hierarchy& h, int l, int d) {
    json children = json::array();
    for (int c = h.shape.first_child(l, d); c < h.shape.first_child(l, d + 1); ++c) {
        json& child =
            children.emplace_back(l == 0 ? node_json("rank", fmt::format("rank {}", c))
                                         : node_json("domain", fmt::format("{} {}", h.levels[at(l - 1)].name, c)));
        if (l > 0) child["children"] = children_json(h, l - 1, c);
    }
    return children;
}

}  // namespace

std::string describe_text(const topology& t) {
    const hierarchy& h = t.machine;
    const likeness like(h.shape);
    std::string text = fmt::format("{}: {} in {}, {}\n\n{}\n{}\n", t.name, counted(h.ranks(), "rank"),
                                   counted(static_cast<int>(h.node_sizes().size()), "node"), shape_text(h.shape),
                                   level_table(h), t.name);
    append_domains(text, h, like, h.depth() - 1, 0, 1);
    if (h.reduction > 0) text += fmt::format("\nreduction: {} per rank\n", format_bandwidth(h.reduction));
    return text;
}

std::string describe_json(const topology& t) {
    const hierarchy& h = t.machine;
    json levels = json::array();
    for (int l = 0; l < h.depth(); ++l) levels.push_back(level_json(h, l));
    json machine = node_json("machine", t.name);
    machine["children"] = children_json(h, h.depth() - 1, 0);
    const json all = {{"name", t.name},
                      {"ranks", h.ranks()},
                      {"levels", std::move(levels)},
                      {"children", h.shape.children()},
                      {"nodes", h.node_sizes()},
                      {"reduction_bytes_per_s", h.reduction > 0 ? json(h.reduction) : json(nullptr)},
                      {"tree", std::move(machine)}};
    return all.dump(2) + "\n";
}

}  // namespace terrace
