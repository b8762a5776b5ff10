#include "topology/formats/slurm.hpp"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <iterator>
#include <numeric>
#include <set>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include <fmt/format.h>

#include <terrace/error.hpp>

#include "base/document.hpp"
#include "base/hosts.hpp"
#include "base/index.hpp"
#include "base/letters.hpp"
#include "base/units.hpp"
#include "machine/hierarchy_yaml.hpp"
#include "topology/words.hpp"

namespace terrace::detail {

namespace {

constexpr std::size_t max_bytes = 8 << 20;
constexpr int max_height = max_levels;
constexpr std::size_t max_switches = 50'000;

struct text_position {
    int line = 0;
    int column = 0;
};

struct network_switch {
    text_position where;
    std::string name;
    std::vector<std::string> nodes;
    std::vector<std::string> switches;
    std::optional<double> speed;   // [B/s]
    std::optional<double> number;  // LinkSpeed without a unit, until the file's unit is known
    text_position speed_where;
    bool speed_assumed = false;
    std::vector<int> below;  // the switches, as indexes
    int above = -1;          // the switch, as an index; -1: none
    int height = 0;          // leaf switches: 1
};

class conf_reader {
public:
    conf_reader(const std::filesystem::path& path, std::optional<link_unit> unit)
        : name_(path.string()), text_(read_text(path, max_bytes)) {
        check_text(text_, name_);
        read_lines();
        apply_unit(unit);
        if (switches_.empty()) throw input_error(name_, 0, 0, "no line begins with SwitchName=");
        connect();
        for (std::size_t i = 0; i < switches_.size(); ++i) find_height(static_cast<int>(i), 1);
    }

    slurm_network whole(const std::optional<uplink>& nodes, const std::vector<std::string>& hosts) const {
        const int top = root(hosts);
        hierarchy h;
        const int height = switches_[at(top)].height;
        std::vector<std::vector<int>> children(at(height)), links(at(height));
        fill(top, height - 1, -1, children, links, h.hosts);
        h.shape = tree(std::move(children));
        for (int l = 0; l < height; ++l) h.levels.push_back(level_at(l, h.shape, links[at(l)], nodes, h.levels));
        std::vector<std::string> notes = notes_;
        for (std::size_t l = 1; l < h.levels.size(); ++l) note_slow_level(h.levels[l - 1], h.levels[l], notes);
        return {without_idle_levels(h), std::move(notes)};
    }

private:
    [[noreturn]] void fail(text_position p, const std::string& message) const {
        throw input_error(name_, p.line, p.column, message);
    }

    // A line may go on after a backslash; `#` begins a comment.
    void read_lines() {
        int line = 1;
        std::vector<word> words;
        const std::string_view text = text_;
        for (std::size_t start = 0; start < text.size(); ++line) {
            const std::size_t end = std::min(text.find('\n', start), text.size());
            std::string_view content = text.substr(start, end - start);
            content = content.substr(0, content.find('#'));
            content = content.substr(0, content.find_last_not_of(" \t\r") + 1);
            const bool goes_on = content.ends_with('\\');
            if (goes_on) content.remove_suffix(1);
            const std::vector<word> more = words_of(content, line);
            words.insert(words.end(), more.begin(), more.end());
            if (!goes_on && !words.empty()) {
                read_switch(words);
                words.clear();
            }
            start = end + 1;
        }
        if (!words.empty()) read_switch(words);
    }

    // scontrol says each switch's Level, of one above others all nodes below it, and LinkSpeed=1 where none is given.
    void read_switch(const std::vector<word>& words) {
        network_switch s;
        s.where = {words.front().line, words.front().column};
        const bool printed =
            std::any_of(words.begin(), words.end(), [](const word& w) { return same_word(w.key, "Level"); });
        for (auto w = words.begin(); w != words.end(); ++w) {
            const text_position where{w->line, w->column};
            const std::string_view key = w->key;
            if (same_word(key, "Include")) fail(where, "other files are not read; put the lines of that one here");
            if (!w->value) fail(where, fmt::format("\"{}\" is not KEY=VALUE", key));
            if (std::any_of(words.begin(), w, [&](const word& before) { return same_word(before.key, key); }))
                fail(where, fmt::format("{}= is there twice; write it once for each switch", key));
            const std::string_view value = *w->value;
            const auto list = [&] {
                try {
                    return value.empty() ? std::vector<std::string>{} : expand_hosts(value);
                } catch (const usage_error& e) {
                    fail(where, e.what());
                }
            };
            if (same_word(key, "SwitchName")) s.name = value;
            else if (same_word(key, "Nodes")) s.nodes = list();
            else if (same_word(key, "Switches")) s.switches = list();
            else if (same_word(key, "LinkSpeed")) {
                if (!printed || value != "1") read_speed(s, where, value);
            } else if (same_word(key, "Level")) {
                if (value.empty() || !std::all_of(value.begin(), value.end(), is_digit))
                    fail(where, fmt::format("Level \"{}\" is not a number; leave it out", value));
            } else if (same_word(key, "BlockName") || same_word(key, "BlockSizes"))
                fail(where, "topology/block is not read, only topology/tree: SwitchName, Nodes, Switches, LinkSpeed");
            else fail(where, fmt::format("unknown key \"{}\"; known: SwitchName, Nodes, Switches, LinkSpeed", key));
        }
        if (printed && !s.switches.empty()) s.nodes.clear();
        names_ += s.nodes.size() + s.switches.size();
        if (names_ > 2 * max_hosts) fail(s.where, fmt::format("more than {} nodes and switches", 2 * max_hosts));
        if (s.name.empty()) fail(s.where, "the line has no SwitchName=");
        if (s.nodes.empty() == s.switches.empty())
            fail(s.where, fmt::format("switch \"{}\" has {}; give it one of Nodes= and Switches=", s.name,
                                      s.nodes.empty() ? "neither nodes nor switches" : "both nodes and switches"));
        if (switches_.size() == max_switches) fail(s.where, fmt::format("more than {} switches", max_switches));
        if (!index_.emplace(s.name, static_cast<int>(switches_.size())).second)
            fail(s.where, fmt::format("switch \"{}\" is there twice", s.name));
        switches_.push_back(std::move(s));
    }

    void read_speed(network_switch& s, text_position where, std::string_view value) const {
        double number = 0;
        s.speed_where = where;
        const auto [end, failure] = std::from_chars(value.data(), value.data() + value.size(), number);
        if (failure == std::errc{} && end == value.data() + value.size()) {
            s.number = number;
        } else {
            s.speed = parse_bandwidth(value);
            if (!s.speed) fail_speed(where, value);
            check_speed(s, value);
        }
    }

    [[noreturn]] void fail_speed(text_position where, std::string_view value) const {
        fail(where, fmt::format("LinkSpeed \"{}\" is not a speed; write Gbit/s or Mbit/s as a plain number", value));
    }

    void check_speed(const network_switch& s, std::string_view value) const {
        if (!(*s.speed >= slowest_link) || *s.speed > fastest_link) fail_speed(s.speed_where, value);
    }

    // Slurm gives LinkSpeed no unit. One unit holds for the whole file: two rules within it would turn a spine of 3200
    // above leaves of 800 into the slower one.
    void apply_unit(std::optional<link_unit> given) {
        const network_switch* slowest = nullptr;
        for (const network_switch& s : switches_)
            if (s.number && (slowest == nullptr || *s.number < *slowest->number)) slowest = &s;
        if (slowest == nullptr) return;
        constexpr double least_mbit = 1000;  // links of less than 1 Gbit/s are rare, and so are links of 1 Tbit/s
        const link_unit unit = given.value_or(*slowest->number < least_mbit ? link_unit::gbit : link_unit::mbit);
        for (network_switch& s : switches_) {
            if (!s.number) continue;
            s.speed = *s.number * (unit == link_unit::gbit ? 1e9 : 1e6) / 8;
            s.speed_assumed = !given;
            check_speed(s, fmt::format("{:g}", *s.number));
        }
        if (given) return;
        const bool is_gbit = unit == link_unit::gbit;
        notes_.push_back(
            fmt::format("LinkSpeed has no unit in Slurm; the whole file is read in {}, as its smallest "
                        "number, {:g}, is {} {:g}; --link-unit {} reads it in {}",
                        is_gbit ? "Gbit/s" : "Mbit/s", *slowest->number, is_gbit ? "below" : "not below", least_mbit,
                        is_gbit ? "mbit" : "gbit", is_gbit ? "Mbit/s" : "Gbit/s"));
    }

    void connect() {
        std::unordered_set<std::string_view> seen;
        for (network_switch& s : switches_) {
            for (const std::string& node : s.nodes)
                if (!seen.insert(node).second) fail(s.where, fmt::format("node \"{}\" is there twice", node));
            for (const std::string& name : s.switches) {
                const auto found = index_.find(name);
                if (found == index_.end()) fail(s.where, fmt::format("there is no switch \"{}\"", name));
                network_switch& below = switches_[at(found->second)];
                if (below.above >= 0)
                    fail(s.where, fmt::format("switch \"{}\" is below another one already; only trees are read", name));
                below.above = static_cast<int>(&s - switches_.data());
                s.below.push_back(found->second);
            }
        }
    }

    int find_height(int i, int depth) {
        network_switch& s = switches_[at(i)];
        if (s.height > 0) return s.height;
        if (depth > max_height)
            fail(s.where, fmt::format("switch \"{}\" is in a loop, or below more than {} others", s.name, max_height));
        int highest = 0;
        for (const int b : s.below) highest = std::max(highest, find_height(b, depth + 1));
        if (highest >= max_height)
            fail(s.where, fmt::format("switch \"{}\" is in a loop, or above more than {} levels", s.name, max_height));
        return s.height = highest + 1;
    }

    // The switches that hosts hang on; all if there are none.
    std::vector<int> switches_of(const std::vector<std::string>& hosts) const {
        std::vector<int> result(switches_.size());
        std::iota(result.begin(), result.end(), 0);
        if (hosts.empty()) return result;
        std::vector<std::string> nodes;
        std::vector<int> leaf;  // of each node, its switch
        for (const int i : std::exchange(result, {})) {
            const std::vector<std::string>& own = switches_[at(i)].nodes;
            nodes.insert(nodes.end(), own.begin(), own.end());
            leaf.resize(nodes.size(), i);
        }
        const host_index index(nodes, name_ + "'s");
        for (const std::string& host : hosts) result.push_back(leaf[index.find(host)]);
        return result;
    }

    int root(const std::vector<std::string>& hosts) const {
        std::set<int> roots;
        for (int i : switches_of(hosts)) {
            while (switches_[at(i)].above >= 0) i = switches_[at(i)].above;
            roots.insert(i);
        }
        if (roots.size() > 1) {
            const network_switch& one = switches_[at(*roots.begin())];
            const network_switch& other = switches_[at(*std::next(roots.begin()))];
            fail(other.where, fmt::format("nothing connects switch \"{}\" with switch \"{}\"; add a switch above both, "
                                          "or plan for the hosts of one with --hosts",
                                          other.name, one.name));
        }
        return *roots.begin();
    }

    // Adds what is below switch i, which stands for a domain of level l. A leaf switch higher up gets levels of its
    // own, whose links are its own one upwards, to switch `up`.
    void fill(int i, int l, int up, std::vector<std::vector<int>>& children, std::vector<std::vector<int>>& links,
              std::vector<std::string>& nodes) const {
        const network_switch& s = switches_[at(i)];
        const bool stands_in = s.height <= l;
        const std::size_t joined = stands_in ? 1 : l == 0 ? s.nodes.size() : s.below.size();
        children[at(l)].push_back(static_cast<int>(joined));
        links[at(l)].insert(links[at(l)].end(), joined, stands_in ? up : i);
        if (stands_in) return fill(i, l - 1, up, children, links, nodes);
        if (l == 0) nodes.insert(nodes.end(), s.nodes.begin(), s.nodes.end());
        for (const int b : s.below) fill(b, l - 1, i, children, links, nodes);
    }

    // Level l, whose children hang on the switches `links`; `inner` are the levels below it.
    level level_at(int l, const tree& shape, const std::vector<int>& links, const std::optional<uplink>& nodes,
                   const std::vector<level>& inner) const {
        level result;
        const fabric medium = nodes ? nodes->medium : fabric::infiniband;
        const rates fallback = default_rates(medium);
        constexpr std::string_view names[] = {"leaf", "spine", "core"};
        result.name = l < 3 ? std::string(names[l]) : fmt::format("core-{}", l - 1);
        result.medium = medium;
        result.latency = fallback.latency;
        result.latency_assumed = true;
        result.overhead = fallback.overhead;
        // Where none is given: a node's own link; above that as much as all links below one switch carry.
        double missing = nodes ? nodes->bandwidth : fallback.bandwidth;
        if (l > 0) {
            const std::vector<int>& sizes = shape.children()[at(l - 1)];
            missing = inner.back().bandwidth * *std::max_element(sizes.begin(), sizes.end());
        }
        const bool missing_assumed = l > 0 || !nodes || nodes->assumed;
        // A node has as many links into its leaf switch as it has ports.
        const auto given = [&](double speed) { return l == 0 && nodes ? nodes->with_ports(speed) : speed; };
        std::vector<double> rates;
        for (const int i : links) {
            const network_switch& s = switches_[at(i)];
            rates.push_back(std::min(s.speed ? given(*s.speed) : missing, fastest_link));
            result.bandwidth_assumed |= s.speed ? s.speed_assumed : missing_assumed;
        }
        return normalised(with_rates(std::move(result), std::move(rates)));
    }

    // A switch whose link upwards carries less than one link below it is more often a mistake than a network.
    static void note_slow_level(const level& below, const level& above, std::vector<std::string>& notes) {
        if (above.bandwidth >= below.bandwidth) return;
        notes.push_back(
            fmt::format("links into level \"{}\" ({}) are slower than those into level \"{}\" below it ({}); "
                        "if that is not so, correct LinkSpeed in the file, or give its unit (--link-unit)",
                        above.name, format_bandwidth(above.bandwidth), below.name, format_bandwidth(below.bandwidth)));
    }

    std::string name_;
    std::string text_;
    std::vector<std::string> notes_;
    std::vector<network_switch> switches_;
    std::unordered_map<std::string, int> index_;
    std::size_t names_ = 0;
};

// True if the first line that is no comment begins with a key of topology.conf or of what scontrol prints.
bool is_slurm(const source_start& start) {
    if (!start.is_file) return false;
    constexpr std::string_view blanks = " \t\r\n";
    std::string_view text = start.text;
    while (text.starts_with('#')) {
        text.remove_prefix(std::min(text.find('\n'), text.size()));
        text.remove_prefix(std::min(text.find_first_not_of(blanks), text.size()));
    }
    const std::vector<word> words = words_of(text.substr(0, text.find('\n')), 1);
    if (words.empty()) return false;
    const auto is = [&](std::string_view key) { return same_word(words.front().key, key); };
    if (!words.front().value) return is("Include") && words.size() == 2;
    return is("SwitchName") || is("BlockName") || is("Nodes") || is("Switches");
}

topology read_network(const std::string& file, const read_options& options) {
    slurm_network network = read_slurm_topology(file, {}, options.hosts, options.unit);
    network.notes.push_back(
        "every node is one rank, as the file does not describe the inside of nodes; for ranks per node give a node's "
        "file, and this one with --slurm");
    return {name_of_source(file), std::move(network.machine), nullptr, std::move(network.notes)};
}

}  // namespace

slurm_network read_slurm_topology(const std::filesystem::path& file, const std::optional<uplink>& nodes,
                                  const std::vector<std::string>& hosts, std::optional<link_unit> unit) {
    return conf_reader(file, unit).whole(nodes, hosts);
}

topology_format slurm_format() { return {"slurm", "Slurm's topology.conf", is_slurm, read_network}; }

}  // namespace terrace::detail
