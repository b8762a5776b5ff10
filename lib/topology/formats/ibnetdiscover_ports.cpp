#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include <terrace/error.hpp>

#include "base/document.hpp"
#include "base/text_check.hpp"
#include "topology/formats.hpp"
#include "topology/formats/infiniband.hpp"
#include "topology/formats/printed_lines.hpp"

namespace terrace::detail {

namespace {

constexpr std::size_t max_ibnetdiscover_ports = 32 << 20;

// One line: `SW 1719 10 0x7cfe.. 4x EDR - CA 134 1 0x7cfe.. ( 'leaf1' - 'node01 HCA-1' )`. Each end is its kind, LID,
// port and GUID. A port without a link has neither the dash nor the other end.
struct port_line {
    std::vector<std::string_view> words;
    std::string_view text;

    static constexpr std::size_t own_kind = 0, own_guid = 3, width = 4, speed = 5, dash = 6, peer_guid = 10,
                                 length = 11;

    explicit port_line(std::string_view line) : words(split_at_blanks(line)), text(line) {}

    bool is_port() const {
        return words.size() > speed &&
               (words[own_kind] == "SW" || words[own_kind] == "CA" || words[own_kind] == "RT") &&
               words[own_guid].starts_with("0x");
    }
    bool has_link() const { return words.size() > dash && words[dash] == "-"; }
    double rate() const { return infiniband_rate(words[width], words[speed]); }

    // What stands between `( '` and `' )`, taken apart at `' - '`; both empty where there is nothing of the kind.
    std::pair<std::string_view, std::string_view> descriptions() const {
        constexpr std::string_view opens = "( '", parts = "' - '", closes = "' )";
        const std::size_t begin = text.find(opens), end = text.rfind(closes);
        if (begin == text.npos || end == text.npos || end < begin + opens.size()) return {};
        const std::string_view both = text.substr(begin + opens.size(), end - begin - opens.size());
        const std::size_t middle = both.find(parts);
        if (middle == both.npos) return {};
        return {both.substr(0, middle), both.substr(middle + parts.size())};
    }
};

// Every cable is there twice, once from each end; lines of switches have all that are needed.
switch_network read_ports(const std::string& file) {
    const std::string text = read_text(file, max_ibnetdiscover_ports);
    check_text(text, file);
    infiniband_fabric fabric{.source = file};
    std::unordered_map<std::string_view, std::size_t> number;
    for_each_line(text, [&](std::string_view content, int line) {
        const port_line port(content);
        if (!port.is_port() || port.words[port_line::own_kind] != "SW" || !port.has_link()) return;
        if (port.words.size() < port_line::length)
            throw input_error(file, line, 1, "the line ends before the GUID of its other end; print the fabric again");
        const auto [own, peer] = port.descriptions();
        const auto [entry, is_new] = number.emplace(port.words[port_line::own_guid], fabric.switches.size());
        if (is_new) fabric.switches.push_back({{line, 1}, std::string(entry->first), std::string(own)});
        fabric.switches[entry->second].ports.push_back(
            {std::string(port.words[port_line::peer_guid]), std::string(peer), port.rate()});
    });
    return network_of(fabric);
}

bool is_ibnetdiscover_ports(const source_start& start) {
    return start.is_file && port_line(start.text.substr(0, start.text.find('\n'))).is_port();
}

}  // namespace

topology_format ibnetdiscover_ports_format() {
    return {"ibnetdiscover_ports", "InfiniBand's ibnetdiscover -p", is_ibnetdiscover_ports,
            [](const std::string& source, const read_options&) { return read_ports(source); }};
}

}  // namespace terrace::detail
