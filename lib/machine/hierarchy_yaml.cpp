#include "machine/hierarchy_yaml.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <terrace/error.hpp>

#include "base/hosts.hpp"
#include "base/index.hpp"
#include "base/units.hpp"

namespace terrace::detail {

namespace {

// A rate that may be left out or marked as assumed: its key, where it is kept, and its reader, writer and limits.
struct rate_field {
    std::string_view key;
    double level::*value;
    bool level::*assumed;
    double rates::*fallback;
    double (document::*read)() const;
    std::string (*format)(double);
    double low;
    double high;
};

constexpr std::array<rate_field, 3> rate_fields{{
    {"bandwidth", &level::bandwidth, &level::bandwidth_assumed, &rates::bandwidth, &document::bandwidth,
     format_bandwidth, slowest_link, fastest_link},
    {"latency", &level::latency, &level::latency_assumed, &rates::latency, &document::duration, format_duration, 0,
     1e3},
    {"overhead", &level::overhead, &level::overhead_assumed, &rates::overhead, &document::duration, format_duration, 0,
     1e3},
}};

// What a rank adds up, beside the levels.
constexpr rate_field reduction{"reduction",          nullptr,          nullptr,      nullptr,
                               &document::bandwidth, format_bandwidth, slowest_link, fastest_link};

// What NCCL or MPI takes for buffers on GPUs: a map in a level's.
struct device_field {
    std::string_view key;
    double device_rates::*value;
    double (document::*read)() const;
    std::string (*format)(double);
    double low, high;
};

constexpr std::array<device_field, 3> device_fields{{
    {"stage", &device_rates::stage, &document::duration, format_duration, 1e-9, 1e3},
    {"step", &device_rates::step, &document::duration, format_duration, 1e-9, 1e3},
    {"bandwidth", &device_rates::bandwidth, &document::bandwidth, format_bandwidth, slowest_link, fastest_link},
}};

struct device_key {
    std::string_view name;
    std::optional<device_rates> level::*given;
    device_rates (*resolved)(const level& l) noexcept;
    std::size_t first;  // of its fields: MPI has no stages of its own here
};

constexpr std::array<device_key, 2> device_keys{
    {{"nccl", &level::nccl, nccl_rates, 0}, {"mpi", &level::mpi, mpi_rates, 1}}};

// What is made of each rate: but once of those that are equal, as most of a machine's many links are.
template <class Make>
auto made_of(const std::vector<double>& rates, Make make) {
    using made = decltype(make(0.0));
    std::unordered_map<double, made> known;
    std::vector<made> all;
    for (const double rate : rates) {
        const auto [found, is_new] = known.try_emplace(rate);
        if (is_new) found->second = make(rate);
        all.push_back(found->second);
    }
    return all;
}

// Of one link, so many of which are within the limits together.
double checked_rate(const document& entry, const auto& field, double links = 1) {
    const double rate = (entry.*field.read)(), high = field.high / links;
    if (rate < field.low || rate > high)
        entry.fail(fmt::format("{} {} is out of range; it may be from {} to {}", field.key, entry.text(),
                               field.format(field.low), field.format(high)));
    return rate;
}

std::optional<device_rates> read_device_rates(const document& map, const device_key& key) {
    if (!map.has(key.name)) return {};
    const document given = map.at(key.name);
    if (key.first == 0) given.allow_only({"stage", "step", "bandwidth"});
    else given.allow_only({"step", "bandwidth"});
    device_rates r;
    for (std::size_t f = key.first; f < device_fields.size(); ++f) {
        const device_field& field = device_fields[f];
        if (given.has(field.key)) r.*field.value = checked_rate(given.at(field.key), field);
    }
    return r;
}

std::string level_name(const document& map) {
    const document entry = map.at("name");
    const std::string& name = entry.text();
    constexpr std::string_view allowed = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-";
    if (name.empty() || name.find_first_not_of(allowed) != name.npos)
        entry.fail(fmt::format("\"{}\" cannot name a level; use letters, digits, and _ . -", name));
    return name;
}

fabric level_fabric(const document& map) {
    const document entry = map.at("fabric");
    const auto medium = parse_fabric(entry.text());
    if (!medium) entry.fail(unknown_fabric(entry.text()));
    return *medium;
}

bool has_rings(const document& map) {
    if (!map.has("links")) return false;
    const document links = map.at("links");
    if (links.text() != "ring" && links.text() != "switch")
        links.fail(fmt::format("links cannot be \"{}\"; they are switch or ring", links.text()));
    if (links.text() == "ring" && map.has("bandwidth") && map.at("bandwidth").is_sequence())
        map.at("bandwidth").fail("the links of a ring are alike; write one bandwidth");
    return links.text() == "ring";
}

std::vector<std::string> assumed_keys(const document& map) {
    std::vector<std::string> keys;
    if (!map.has("assumed")) return keys;
    for (const document& item : map.at("assumed").items()) {
        const auto names_it = [&](const rate_field& field) { return field.key == item.text(); };
        if (std::none_of(rate_fields.begin(), rate_fields.end(), names_it))
            item.fail(fmt::format("\"{}\" cannot be assumed; bandwidth, latency and overhead can", item.text()));
        keys.push_back(item.text());
    }
    return keys;
}

// Of each child's link.
std::vector<double> listed_rates(const document& list, const rate_field& field) {
    std::vector<double> rates;
    for (const document& item : list.items()) rates.push_back(checked_rate(item, field));
    if (rates.empty()) list.fail("an empty list of bandwidths; write one for each child, or one for all");
    return rates;
}

// There are as many as children, which are known once the shape is.
void check_rates(const std::vector<document>& levels, const hierarchy& h) {
    for (int l = 0; l < h.depth(); ++l) {
        const document& map = levels[static_cast<std::size_t>(l)];
        if (!map.has("bandwidth") || !map.at("bandwidth").is_sequence()) continue;
        const std::size_t given = map.at("bandwidth").items().size();
        if (given != static_cast<std::size_t>(h.shape.members(l)))
            map.at("bandwidth")
                .fail(fmt::format("{} bandwidths, but level \"{}\" joins {} children in all; write one "
                                  "for each, or one for all",
                                  given, h.levels[static_cast<std::size_t>(l)].name, h.shape.members(l)));
    }
}

// Rings are those of a torus: outermost, as many children everywhere.
void check_rings(const std::vector<document>& levels, const hierarchy& h) {
    for (int l = h.torus_level(); l < h.depth(); ++l) {
        const document& map = levels[static_cast<std::size_t>(l)];
        const std::string& name = h.levels[static_cast<std::size_t>(l)].name;
        if (!h.levels[static_cast<std::size_t>(l)].ring)
            map.fail(fmt::format("level \"{}\" is outside a level of rings; a torus is the outermost", name));
        if (!h.shape.uniform_size(l)) map.fail(fmt::format("the rings of level \"{}\" differ in size", name));
    }
}

level read_level(const document& map) {
    map.allow_only({"name", "size", "fabric", "bandwidth", "latency", "overhead", "assumed", "links", "names", "hosts",
                    "nics", "nccl", "mpi", "wire"});
    level l;
    l.name = level_name(map);
    l.medium = level_fabric(map);
    l.ring = has_rings(map);
    const rates fallback = default_rates(l.medium);
    const std::vector<std::string> assumed = assumed_keys(map);
    for (const rate_field& field : rate_fields) {
        const bool given = map.has(field.key);
        const bool listed = given && field.value == &level::bandwidth && map.at(field.key).is_sequence();
        if (listed) l = with_rates(std::move(l), listed_rates(map.at(field.key), field));
        else l.*field.value = given ? checked_rate(map.at(field.key), field) : fallback.*field.fallback;
        l.*field.assumed = !given || std::find(assumed.begin(), assumed.end(), field.key) != assumed.end();
    }
    for (const device_key& key : device_keys) l.*key.given = read_device_rates(map, key);
    if (map.has("wire")) l.wire = read_wire_type(map.at("wire"));
    return normalised(std::move(l));
}

// `levels` may go on with `map`: no name twice, and networks only above what lies inside a node.
void check_next(const std::vector<level>& levels, const level& next, const document& map) {
    for (const level& l : levels)
        if (l.name == next.name) map.at("name").fail(fmt::format("two levels are named \"{}\"; rename one", l.name));
    if (!levels.empty() && between_nodes(levels.back().medium) && !between_nodes(next.medium))
        map.at("fabric").fail(
            fmt::format("level \"{}\" ({}) connects parts of a node, but level \"{}\" ({}) below it connects nodes; "
                        "list the levels "
                        "innermost first",
                        next.name, to_string(next.medium), levels.back().name, to_string(levels.back().medium)));
}

[[noreturn]] void fail_too_large(const document& at) { at.fail(fmt::format("more than {} ranks", max_ranks)); }

tree read_sizes(const std::vector<document>& levels) {
    std::vector<int> sizes;
    std::int64_t ranks = 1;
    for (const document& l : levels) {
        const document size = l.at("size");
        sizes.push_back(static_cast<int>(size.integer(1, max_ranks)));
        ranks *= sizes.back();
        if (ranks > max_ranks) fail_too_large(size);
    }
    return tree::uniform(sizes);
}

// Reads the `tree:` of an uneven machine into the form that tree's constructor takes.
class tree_reader {
public:
    explicit tree_reader(const std::vector<level>& levels) : levels_(levels), children_(levels.size()) {}

    tree read(const document& whole) {
        domain(whole, levels_.size() - 1);
        return tree(std::move(children_));
    }

private:
    void domain(const document& d, std::size_t l) {
        if (d.is_sequence() != (l > 0))
            d.fail(fmt::format("expected {} of level \"{}\"; tree nests one less deep than there are levels ({})",
                               l > 0 ? "a list: the domains below one" : "an integer: the ranks of one domain",
                               levels_[l].name, levels_.size()));
        if (l == 0) {
            children_[0].push_back(static_cast<int>(d.integer(1, max_ranks)));
            ranks_ += children_[0].back();
            if (ranks_ > max_ranks) fail_too_large(d);
            return;
        }
        const std::vector<document> items = d.items();
        if (items.empty()) d.fail(fmt::format("a domain of level \"{}\" is empty", levels_[l].name));
        children_[l].push_back(static_cast<int>(items.size()));
        for (const document& item : items) domain(item, l - 1);
    }

    const std::vector<level>& levels_;
    std::vector<std::vector<int>> children_;
    std::int64_t ranks_ = 0;
};

tree read_shape(const document& map, const std::vector<level>& levels) {
    const std::vector<document> items = map.at("levels").items();
    const bool sized = items.front().has("size");
    for (std::size_t i = 0; i < items.size(); ++i)
        if (items[i].has("size") != sized)
            items[i].fail(
                fmt::format("level \"{}\" has {} size, unlike level \"{}\"; give each level one, or none and a tree",
                            levels[i].name, sized ? "no" : "a", levels[0].name));
    if (sized && map.has("tree")) map.at("tree").fail("the levels have sizes already; leave out those, or the tree");
    if (!sized && !map.has("tree")) items.front().fail("the levels have no sizes; give each level one, or add a tree");
    return sized ? read_sizes(items) : tree_reader(levels).read(map.at("tree"));
}

// Where the nodes may be named: at the level whose domains they are, or at the one whose children they are.
std::vector<std::size_t> host_levels(const hierarchy& h) {
    const int nodes = h.node_levels();
    std::vector<std::size_t> levels;
    if (nodes > 0) levels.push_back(static_cast<std::size_t>(nodes - 1));
    if (nodes < h.depth()) levels.push_back(static_cast<std::size_t>(nodes));
    return levels;
}

// What a list names: `count` different ones.
std::vector<std::string> names_for(const document& list, std::size_t count, std::string_view one,
                                   std::string_view all) {
    std::vector<std::string> names = read_names(list);
    if (names.size() != count)
        list.fail(fmt::format("{} {} names for {} {}; name each once", names.size(), one, count, all));
    std::unordered_set<std::string_view> seen;
    for (const std::string& name : names)
        if (!seen.insert(name).second) list.fail(fmt::format("{} \"{}\" is there twice", one, name));
    return names;
}

std::vector<std::string> read_hosts(const std::vector<document>& levels, const hierarchy& h) {
    std::vector<std::string> names;
    for (std::size_t l = 0; l < levels.size(); ++l) {
        if (!levels[l].has("hosts")) continue;
        const document list = levels[l].at("hosts");
        const std::vector<std::size_t> allowed = host_levels(h);
        if (std::find(allowed.begin(), allowed.end(), l) == allowed.end())
            list.fail(fmt::format("hosts name nodes; move them to level \"{}\"", h.levels[allowed.back()].name));
        if (!names.empty()) list.fail("the nodes have names already; leave one of the two lists out");
        names = names_for(list, h.node_sizes().size(), "host", "nodes");
    }
    return names;
}

void read_domain_names(const std::vector<document>& levels, hierarchy& h) {
    for (std::size_t l = 0; l < levels.size(); ++l)
        if (levels[l].has("names"))
            h.levels[l].names =
                names_for(levels[l].at("names"), static_cast<std::size_t>(h.shape.domains(static_cast<int>(l))),
                          h.levels[l].name, "domains");
}

std::string write_level(const level& l, std::optional<int> size, const std::string& hosts, const std::string& nics) {
    std::string text = fmt::format("{{name: {}", yaml_scalar(l.name));
    if (size) text += fmt::format(", size: {}", *size);
    text += fmt::format(", fabric: {}", to_string(l.medium));
    std::vector<std::string_view> assumed;
    for (const rate_field& field : rate_fields) {
        if (l.*field.assumed) assumed.push_back(field.key);
        // The overhead, which hardly any file gives, is left out where the table has it.
        const bool listed = field.value == &level::bandwidth && !l.rates.empty();
        const std::string value = listed ? fmt::format("[{}]", fmt::join(made_of(l.rates, format_bandwidth), ", "))
                                         : field.format(l.*field.value);
        const bool implied = field.value == &level::overhead && l.overhead_assumed &&
                             value == field.format(default_rates(l.medium).overhead);
        if (!implied) text += fmt::format(", {}: {}", field.key, value);
    }
    if (!nics.empty()) text += fmt::format(", nics: {}", nics);
    if (l.ring) text += ", links: ring";
    if (l.wire != wire_type::exact) text += fmt::format(", wire: {}", to_string(l.wire));
    for (const device_key& key : device_keys) {
        if (!(l.*key.given)) continue;
        std::vector<std::string> given;
        for (const device_field& field : device_fields)
            if ((*(l.*key.given)).*field.value > 0)
                given.push_back(fmt::format("{}: {}", field.key, field.format((*(l.*key.given)).*field.value)));
        text += fmt::format(", {}: {{{}}}", key.name, fmt::join(given, ", "));
    }
    if (!assumed.empty()) text += fmt::format(", assumed: [{}]", fmt::join(assumed, ", "));
    if (!l.names.empty()) text += fmt::format(", names: {}", yaml_scalar(fold_hosts(l.names)));
    if (!hosts.empty()) text += fmt::format(", hosts: {}", yaml_scalar(hosts));
    return text + "}";
}

std::string write_domain(const tree& t, int l, int d) {
    if (l == 0) return fmt::format("{}", t.children(0, d));
    std::vector<std::string> parts;
    for (int c = t.first_child(l, d); c < t.first_child(l, d + 1); ++c) parts.push_back(write_domain(t, l - 1, c));
    return fmt::format("[{}]", fmt::join(parts, ", "));
}

}  // namespace

std::vector<level> read_levels(const document& list) {
    std::vector<level> levels;
    for (const document& item : list.items()) {
        level next = read_level(item);
        check_next(levels, next, item);
        levels.push_back(std::move(next));
        if (levels.size() > max_levels) item.fail(fmt::format("more than {} levels", max_levels));
    }
    if (levels.empty()) list.fail("a machine has at least one level");
    return levels;
}

processors read_processors(const document& map) {
    processors p;
    if (map.has(reduction.key)) p.reduction = as_printed(checked_rate(map.at(reduction.key), reduction));
    if (map.has("cores")) p.cores = static_cast<int>(map.at("cores").integer(1, max_ranks));
    if (map.has("segment")) {
        p.segment = map.at("segment").bytes();
        if (p.segment < 1) map.at("segment").fail("a message is cut into pieces of at least 1 byte");
    }
    return p;
}

double as_printed(double bandwidth) { return parse_bandwidth(format_bandwidth(bandwidth)).value_or(bandwidth); }

wire_type read_wire_type(const document& entry) {
    const auto named = parse_wire_type(entry.text());
    if (!named || *named == wire_type::exact)
        entry.fail(fmt::format("unknown wire type \"{}\"; the wire types are {}", entry.text(), wire_type_names()));
    return *named;
}

double read_bandwidth(const document& entry, double links) { return checked_rate(entry, rate_fields[0], links); }

double read_latency(const document& entry) { return checked_rate(entry, rate_fields[1]); }

double read_overhead(const document& entry) { return checked_rate(entry, rate_fields[2]); }

std::vector<std::string> read_names(const document& list) {
    std::vector<std::string> names;
    for (const document& item : list.is_sequence() ? list.items() : std::vector<document>{list}) try {
            const std::vector<std::string> more = expand_hosts(item.text(), max_hosts - names.size());
            names.insert(names.end(), more.begin(), more.end());
        } catch (const usage_error& e) {
            item.fail(e.what());
        }
    return names;
}

hierarchy read_hierarchy(const document& map, bool of_nodes) {
    const std::vector<document> items = map.at("levels").items();
    hierarchy h;
    h.levels = read_levels(map.at("levels"));
    h.shape = read_shape(map, h.levels);
    check_rates(items, h);
    check_rings(items, h);
    read_level_nics(items, h, of_nodes);
    h.processors = read_processors(map);
    read_domain_names(items, h);
    h.hosts = read_hosts(items, h);
    return h;
}

void read_level_nics(const std::vector<document>& levels, hierarchy& h, bool of_nodes) {
    const auto network = static_cast<std::size_t>(h.node_levels());
    for (std::size_t l = 0; l < levels.size(); ++l) {
        if (!levels[l].has("nics")) continue;
        const document entry = levels[l].at("nics");
        if (l != network)
            entry.fail(network == levels.size()
                           ? "NICs connect nodes; give them to an infiniband or ethernet level"
                           : fmt::format("NICs connect nodes; move them to level \"{}\"", h.levels[network].name));
        level& of = h.levels[l];
        if (of.ring) entry.fail("the links of a torus are those of its dimensions; leave nics out");
        const bool given = levels[l].has("bandwidth"), of_nics = entry.is_sequence() || entry.has("bandwidth");
        const int node_level = static_cast<int>(l);
        const auto node_rate = [&](int node) {
            return given ? h.rate(node_level, node) : std::numeric_limits<double>::infinity();
        };
        h.nics = read_nics(entry, h.node_sizes(), node_rate, default_rates(of.medium).bandwidth);
        if (of_nodes && entry.is_map() && entry.has("ranks"))
            entry.at("ranks").fail("the ranks of a node come with its description; leave this out");
        std::vector<double> rates = h.nics.node_rates(of_nodes);
        for (int node = 0; given && node < h.nics.nodes(); ++node)
            rates[at(node)] = std::min(rates[at(node)], h.rate(node_level, node));
        if (!given) of.bandwidth_assumed = !of_nics;
        of = with_rates(std::move(of), std::move(rates));
        of = normalised(std::move(of));
    }
}

std::string write_hierarchy(const hierarchy& h, int indent) {
    const bool uniform = h.shape.uniform();
    std::string text = fmt::format("{:{}}levels:\n", "", indent);
    const std::size_t nics = h.nics.empty() ? h.levels.size() : static_cast<std::size_t>(h.node_levels());
    const std::size_t named = h.hosts.empty() ? h.levels.size() : host_levels(h).back();
    for (std::size_t l = 0; l < h.levels.size(); ++l)
        text += fmt::format(
            "{:{}}  - {}\n", "", indent,
            write_level(h.levels[l], uniform ? h.shape.uniform_size(static_cast<int>(l)) : std::nullopt,
                        l == named ? fold_hosts(h.hosts) : "", l == nics ? write_nics(h.nics, h.node_sizes()) : ""));
    if (h.processors.reduction > 0)
        text += fmt::format("{:{}}{}: {}\n", "", indent, reduction.key, format_bandwidth(h.processors.reduction));
    if (h.processors.cores > 0) text += fmt::format("{:{}}cores: {}\n", "", indent, h.processors.cores);
    if (h.processors.segment != processors{}.segment)
        text += fmt::format("{:{}}segment: {}\n", "", indent, format_bytes(h.processors.segment));
    if (!uniform) text += fmt::format("{:{}}tree: {}\n", "", indent, write_domain(h.shape, h.depth() - 1, 0));
    return text;
}

level normalised(level l) {
    l.bandwidth = as_printed(l.bandwidth);
    l.rates = made_of(l.rates, as_printed);
    for (double* seconds : {&l.latency, &l.overhead})
        *seconds = parse_duration(format_duration(*seconds)).value_or(*seconds);
    for (const device_key& key : device_keys) {
        if (!(l.*key.given)) continue;
        device_rates& r = *(l.*key.given);
        r.bandwidth = r.bandwidth > 0 ? as_printed(r.bandwidth) : 0;
        for (double* seconds : {&r.stage, &r.step})
            *seconds = parse_duration(format_duration(*seconds)).value_or(*seconds);
    }
    return l;
}

// A kernel of NCCL's takes so long to begin and to end, on any fabric; a step over MPI has a copy on each side and two
// looks of a thread, and copies go over PCIe.
device_rates nccl_rates(const level& l) noexcept {
    constexpr double kernel = 8e-6;
    device_rates r = l.nccl.value_or(device_rates{});
    if (r.step == 0) r.step = l.latency + (l.nccl ? kernel : 0);
    if (r.stage == 0) r.stage = l.latency + kernel;
    if (r.bandwidth == 0) r.bandwidth = l.bandwidth;
    return r;
}

device_rates mpi_rates(const level& l) noexcept {
    constexpr double copies = 20e-6;
    device_rates r = l.mpi.value_or(device_rates{});
    if (r.step == 0) r.step = l.latency + copies;
    if (r.bandwidth == 0) r.bandwidth = std::min(l.bandwidth, default_rates(fabric::pcie).bandwidth);
    return r;
}

std::string device_rates_text(const level& l) {
    std::vector<std::string> texts;
    for (const device_key& key : device_keys) {
        if (!(l.*key.given)) continue;
        const device_rates resolved = key.resolved(l);
        std::vector<std::string> values;
        for (std::size_t f = key.first; f < device_fields.size(); ++f) {
            const device_field& field = device_fields[f];
            const bool assumed = (*(l.*key.given)).*field.value == 0;
            values.push_back(
                fmt::format("{} {}{}", field.key, field.format(resolved.*field.value), assumed ? " *" : ""));
        }
        texts.push_back(fmt::format("{}: {}", key.name, fmt::join(values, ", ")));
    }
    return fmt::format("{}", fmt::join(texts, "; "));
}

rates default_rates(fabric f) noexcept {
    switch (f) {
        case fabric::shm: return {10e9, 0.5e-6, 0.3e-6};
        case fabric::nvlink: return {20e9, 2e-6, 1e-6};
        case fabric::pcie: return {12e9, 3e-6, 1e-6};
        case fabric::bus: return {16e9, 1e-6, 0.3e-6};
        case fabric::infiniband: return {12.5e9, 2e-6, 0.5e-6};
        case fabric::ethernet: return {1.25e9, 20e-6, 5e-6};
    }
    return {};
}

}  // namespace terrace::detail
