#include <algorithm>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include <terrace/error.hpp>

#include "base/document.hpp"
#include "base/letters.hpp"
#include "base/text_check.hpp"
#include "base/text_parts.hpp"
#include "base/units.hpp"
#include "machine/hierarchy_yaml.hpp"
#include "topology/formats.hpp"
#include "topology/formats/slurm_blocks.hpp"
#include "topology/words.hpp"

namespace terrace::detail {

namespace {

constexpr std::size_t max_bytes = 8 << 20;

const word* word_of(const std::vector<word>& words, std::string_view key) {
    const auto found = std::ranges::find_if(words, [&](const word& w) { return same_word(w.key, key); });
    return found == words.end() ? nullptr : &*found;
}

text_position place_of(const word& w) { return {w.line, w.column}; }

/// Reads the switches of Slurm's topology.conf (topology/tree) or its blocks (topology/block), or the output of
/// `scontrol show topology` for either.
///
/// LinkSpeed is the rate of one link downwards; Slurm defines no unit for it. `unit` applies to the whole file. Without
/// `unit`, numbers are Gbit/s if the smallest is below 1000, else Mbit/s; they are marked assumed, with a note.
class conf_reader {
public:
    conf_reader(const std::string& file, std::optional<link_unit> unit) : text_(read_text(file, max_bytes)) {
        net_.source = file;
        net_.slow_advice = "correct LinkSpeed in the file, or give its unit (--link-unit)";
        check_text(text_, file);
        read_lines();
        if (!net_.switches.empty()) {
            if (!blocks_.switches.empty())
                net_.notes.push_back("the file has switches and blocks; the switches are read");
            apply_unit(unit);
            return;
        }
        if (blocks_.switches.empty()) net_.fail({}, "no line begins with SwitchName= or BlockName=");
        blocks_.source = file;
        join_blocks(blocks_, sizes_);
        net_ = std::move(blocks_);
    }

    switch_network take() { return std::move(net_); }

private:
    // Reads all records. A backslash continues a line; `#` begins a comment.
    void read_lines() {
        std::vector<word> words;
        for_each_line(text_, [&](std::string_view text, int line) {
            std::string_view content = text.substr(0, text.find('#'));
            const bool goes_on = trimmed(content).ends_with('\\');
            if (goes_on) content = content.substr(0, content.rfind('\\'));
            const std::vector<word> more = words_of(content, line);
            words.insert(words.end(), more.begin(), more.end());
            if (!goes_on && !words.empty()) {
                read_record(words);
                words.clear();
            }
        });
        if (!words.empty()) read_record(words);
    }

    void read_record(const std::vector<word>& words) {
        for (auto w = words.begin(); w != words.end(); ++w) {
            if (same_word(w->key, "Include"))
                net_.fail(place_of(*w), "other files are not read; put the lines of that one here");
            if (!w->value) net_.fail(place_of(*w), fmt::format("\"{}\" is not KEY=VALUE", w->key));
            if (std::any_of(words.begin(), w, [&](const word& before) { return same_word(before.key, w->key); }))
                net_.fail(place_of(*w), fmt::format("{}= is there twice; write it once in each line", w->key));
        }
        if (const word* ring = word_of(words, "RingName"))
            net_.fail(place_of(*ring),
                      "topology/ring is not read, only topology/tree and topology/block; a torus is "
                      "described in a cluster file (torus:)");
        if (word_of(words, "BlockName") || word_of(words, "BlockSizes") || word_of(words, "AggregatedBlock"))
            return read_block(words);
        read_switch(words);
    }

    std::vector<std::string> list(const word& w) {
        try {
            return names_.expand(*w.value);
        } catch (const usage_error& e) {
            net_.fail(place_of(w), e.what());
        }
    }

    // Reads a switch. scontrol prints its Level, all nodes below outer switches, and LinkSpeed=1 if none is given.
    void read_switch(const std::vector<word>& words) {
        network_switch s{place_of(words.front()), {}};
        const bool printed = word_of(words, "Level") != nullptr;
        const bool above = printed && word_of(words, "Switches") && !word_of(words, "Switches")->value->empty();
        for (const word& w : words) {
            const std::string_view value = *w.value;
            if (same_word(w.key, "SwitchName")) s.name = value;
            else if (same_word(w.key, "Nodes")) {
                if (!above) s.nodes = list(w);
            } else if (same_word(w.key, "Switches")) s.switches = list(w);
            else if (same_word(w.key, "LinkSpeed")) {
                if (!printed || value != "1") read_speed(s, w);
            } else if (same_word(w.key, "Level")) {
                expect_number(w);
            } else
                net_.fail(place_of(w), fmt::format("unknown key \"{}\"; known: SwitchName, Nodes, Switches, LinkSpeed; "
                                                   "BlockName, Nodes, BlockSizes",
                                                   w.key));
        }
        if (s.name.empty()) net_.fail(s.where, "the line has no SwitchName=");
        net_.switches.push_back(std::move(s));
    }

    void expect_number(const word& w) const {
        if (w.value->empty() || !std::all_of(w.value->begin(), w.value->end(), is_digit))
            net_.fail(place_of(w), fmt::format("{} \"{}\" is not a number; leave it out", w.key, *w.value));
    }

    // Reads a block. scontrol prints its index and size too, and joined blocks in lines of their own.
    void read_block(const std::vector<word>& words) {
        network_switch block{place_of(words.front()), {}};
        const bool joined = word_of(words, "AggregatedBlock") != nullptr;
        for (const word& w : words) {
            if (same_word(w.key, "BlockName")) block.name = *w.value;
            else if (same_word(w.key, "Nodes")) {
                if (!joined) block.nodes = list(w);
            } else if (same_word(w.key, "BlockSizes") || same_word(w.key, "BlockSize")) read_sizes(w);
            else if (same_word(w.key, "BlockIndex")) expect_number(w);
            else if (!same_word(w.key, "AggregatedBlock"))
                net_.fail(place_of(w),
                          fmt::format("unknown key \"{}\" of blocks; known: BlockName, Nodes, BlockSizes", w.key));
        }
        if (!block.name.empty()) blocks_.switches.push_back(std::move(block));
        else if (word_of(words, "Nodes") && !joined) net_.fail(block.where, "the line has no BlockName=");
    }

    void read_sizes(const word& w) {
        std::string_view rest = *w.value;
        while (!rest.empty()) {
            const std::string_view text = rest.substr(0, rest.find(','));
            rest.remove_prefix(std::min(text.size() + 1, rest.size()));
            const std::optional<int> nodes = as_number<int>(text);
            if (!nodes || *nodes < 1 || *nodes > max_ranks)
                net_.fail(place_of(w),
                          fmt::format("block size \"{}\" is not a number of nodes, from 1 to {}", text, max_ranks));
            // scontrol repeats the size in each line.
            const bool known =
                std::ranges::any_of(sizes_, [&](const slurm_block_size& s) { return s.nodes == *nodes; });
            if (!known) sizes_.push_back({place_of(w), *nodes});
        }
    }

    // LinkSpeed without a unit, until the file's unit is known.
    struct unread_speed {
        std::size_t index;
        text_position where;
        double number;
    };

    // Reads the speed of `s`, which becomes the next switch of the network.
    void read_speed(network_switch& s, const word& w) {
        const std::string_view value = *w.value;
        if (const auto number = as_number<double>(value))
            return speeds_.push_back({net_.switches.size(), place_of(w), *number});
        s.speed = parse_bandwidth(value);
        check_speed(s, place_of(w), value);
    }

    void check_speed(const network_switch& s, text_position where, std::string_view value) const {
        if (!s.speed || !(*s.speed >= slowest_link) || *s.speed > fastest_link)
            net_.fail(where,
                      fmt::format("LinkSpeed \"{}\" is not a speed; write Gbit/s or Mbit/s as a plain number", value));
    }

    // Applies one unit to all numbers of the file. A unit for each number would make a spine of 3200 (Mbit/s) slower
    // than leaves of 800 (Gbit/s) below it.
    void apply_unit(std::optional<link_unit> given) {
        if (speeds_.empty()) return;
        const double slowest = std::ranges::min_element(speeds_, {}, &unread_speed::number)->number;
        constexpr double least_mbit = 1000;  // links of less than 1 Gbit/s are rare, and so are links of 1 Tbit/s
        const link_unit unit = given.value_or(slowest < least_mbit ? link_unit::gbit : link_unit::mbit);
        const bool is_gbit = unit == link_unit::gbit;
        for (const unread_speed& u : speeds_) {
            network_switch& s = net_.switches[u.index];
            s.speed = u.number * (is_gbit ? 1e9 : 1e6) / 8;
            s.speed_assumed = !given;
            check_speed(s, u.where, fmt::format("{:g}", u.number));
        }
        if (given) return;
        net_.notes.push_back(
            fmt::format("LinkSpeed has no unit in Slurm; the whole file is read in {}, as its smallest "
                        "number, {:g}, is {} {:g}; --link-unit {} reads it in {}",
                        is_gbit ? "Gbit/s" : "Mbit/s", slowest, is_gbit ? "below" : "not below", least_mbit,
                        is_gbit ? "mbit" : "gbit", is_gbit ? "Mbit/s" : "Gbit/s"));
    }

    std::string text_;
    name_lists names_;
    switch_network net_, blocks_;
    std::vector<unread_speed> speeds_;
    std::vector<slurm_block_size> sizes_;
};

// True if the first line that is no comment begins with a key of topology.conf or of scontrol's output.
bool is_slurm(const source_start& start) {
    if (!start.is_file) return false;
    std::string_view text = start.text;
    while (text.starts_with('#')) text = without_leading_blanks(text.substr(std::min(text.find('\n'), text.size())));
    const std::vector<word> words = words_of(text.substr(0, text.find('\n')), 1);
    if (words.empty()) return false;
    const auto is = [&](std::string_view key) { return same_word(words.front().key, key); };
    if (!words.front().value) return is("Include") && words.size() == 2;
    constexpr std::string_view keys[] = {"SwitchName", "BlockName",       "BlockSizes", "Nodes",
                                         "Switches",   "AggregatedBlock", "RingName"};
    return std::ranges::any_of(keys, is);
}

}  // namespace

topology_format slurm_format() {
    return {"slurm", "Slurm's topology.conf", is_slurm, [](const std::string& file, const read_options& options) {
                return conf_reader(file, options.unit).take();
            }};
}

}  // namespace terrace::detail
