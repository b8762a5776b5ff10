#include "machine/level_yaml.hpp"

#include <algorithm>
#include <array>
#include <string_view>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/hosts.hpp"
#include "base/units.hpp"

namespace terrace::detail {

namespace {

// A rate that may be left out or marked as assumed: its key, its members, its reader and writer, and its limits.
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

// The rate at which a rank reduces, beside the levels.
constexpr rate_field reduction{"reduction",          nullptr,          nullptr,      nullptr,
                               &document::bandwidth, format_bandwidth, slowest_link, fastest_link};

// A rate of NCCL or MPI for buffers on GPUs, in a map of a level.
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
    std::size_t first;  // index of its first field: MPI has no `stage`
};

constexpr std::array<device_key, 2> device_keys{
    {{"nccl", &level::nccl, nccl_rates, 0}, {"mpi", &level::mpi, mpi_rates, 1}}};

// Returns make(rate) for each rate. Calls it only once for equal rates, since most links of a machine are equal.
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

// Returns the rate of a link, within the limits. @param links how many such links must be within the limits together
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

// Returns the rate of each child's link.
std::vector<double> listed_rates(const document& list, const rate_field& field) {
    std::vector<double> rates;
    for (const document& item : list.items()) rates.push_back(checked_rate(item, field));
    if (rates.empty()) list.fail("an empty list of bandwidths; write one for each child, or one for all");
    return rates;
}

}  // namespace

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

std::string write_level(const level& l, std::optional<int> size, const std::string& hosts, const std::string& nics) {
    std::string text = fmt::format("{{name: {}", yaml_scalar(l.name));
    if (size) text += fmt::format(", size: {}", *size);
    text += fmt::format(", fabric: {}", to_string(l.medium));
    std::vector<std::string_view> assumed;
    for (const rate_field& field : rate_fields) {
        if (l.*field.assumed) assumed.push_back(field.key);
        // An assumed overhead is left out if it equals that of the table, since hardly any file gives one.
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

processors read_processors(const document& map) {
    processors p;
    if (map.has(reduction.key)) p.reduction = as_printed(checked_rate(map.at(reduction.key), reduction));
    if (map.has("segment")) {
        p.segment = map.at("segment").bytes();
        if (p.segment < 1) map.at("segment").fail("a message is cut into pieces of at least 1 byte");
    }
    return p;
}

std::string write_processors(const processors& p, int indent) {
    std::string text;
    if (p.reduction > 0) text += fmt::format("{:{}}{}: {}\n", "", indent, reduction.key, format_bandwidth(p.reduction));
    if (p.segment != processors{}.segment)
        text += fmt::format("{:{}}segment: {}\n", "", indent, format_bytes(p.segment));
    return text;
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

}  // namespace terrace::detail
