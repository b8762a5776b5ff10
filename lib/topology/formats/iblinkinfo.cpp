#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "base/text_parts.hpp"
#include "topology/formats.hpp"
#include "topology/formats/infiniband.hpp"
#include "topology/words.hpp"

namespace terrace::detail {

namespace {

constexpr std::string_view arrow_begins = "==(", arrow_ends = ")==>";

// Returns the rate of "4X 106.25 Gbps Active/ LinkUp" [B/s]; 0 if it is unknown, nothing if the port has no link.
std::optional<double> rate_of(std::string_view state) {
    if (state.find("Active") == state.npos) return {};
    const std::vector<std::string_view> words = split_at_blanks(state);
    if (words.size() < 3 || !words[0].ends_with('X')) return 0;
    const std::optional<int> width = leading_number<int>(words[0]);
    const std::optional<double> gbit = leading_number<double>(words[1]);
    if (!width || *width < 1 || *width > 12 || !gbit) return 0;
    const std::optional<double> lane = infiniband_lane(*gbit);
    return lane ? *width * *lane : 0;
}

// A line `Switch: GUID NAME:` is followed by a line for each port: `LID PORT[  ] ==( 4X 106.25 Gbps Active/ LinkUp)==>
// LID PORT[ ] "NAME" ( )`. Lines of adapters repeat the same cables and are skipped. LIDs identify both ends.
class iblinkinfo_reader : public fabric_reader {
    void read_line(std::string_view text, int line) override {
        const std::size_t arrow = text.find(arrow_begins);
        if (arrow != text.npos) {
            if (in_switch_) read_port(text, arrow, line);
            return;
        }
        in_switch_ = text.starts_with("Switch:");
        if (!in_switch_) return;
        std::string_view name = text.substr(std::string_view("Switch:").size());
        if (name.ends_with(':')) name.remove_suffix(1);
        name = without_leading_blanks(name);
        if (name.empty()) fail(line, "the switch has no GUID; print the fabric again");
        name.remove_prefix(std::min(name.find_first_of(line_blanks), name.size()));
        fabric_.switches.push_back({{line, 1}, {}, std::string(without_leading_blanks(name))});
    }

    void read_port(std::string_view text, std::size_t arrow, int line) {
        const std::size_t end = text.find(arrow_ends, arrow);
        if (end == text.npos) fail(line, "the line ends inside ==( )==>; print the fabric again");
        infiniband_fabric::fabric_switch& s = fabric_.switches.back();
        const std::optional<int> own_lid = leading_number<int>(text);
        if (!own_lid) fail(line, "the port has no LID; print the fabric again");
        if (s.id.empty()) s.id = fmt::format("lid-{}", *own_lid);
        const std::optional<double> rate =
            rate_of(text.substr(arrow + arrow_begins.size(), end - arrow - arrow_begins.size()));
        if (!rate) return;
        const std::string_view peer = without_leading_blanks(text.substr(end + arrow_ends.size()));
        const std::optional<int> lid = leading_number<int>(peer);
        if (!lid) fail(line, "the link has no LID at its other end; print the fabric again");
        const std::size_t quote = peer.find('"'), close = quote == peer.npos ? quote : peer.find('"', quote + 1);
        const std::string_view name = close == peer.npos ? "" : peer.substr(quote + 1, close - quote - 1);
        s.ports.push_back({fmt::format("lid-{}", *lid), std::string(name), *rate});
    }
};

bool is_iblinkinfo(const source_start& start) {
    return start.is_file && start.text.find(arrow_begins) != start.text.npos &&
           start.text.find(arrow_ends) != start.text.npos;
}

}  // namespace

topology_format iblinkinfo_format() {
    return {"iblinkinfo", "InfiniBand's iblinkinfo", is_iblinkinfo,
            [](const std::string& file, const read_options&) { return iblinkinfo_reader().read(file); }};
}

}  // namespace terrace::detail
