#include <string>
#include <string_view>
#include <vector>

#include "base/letters.hpp"
#include "base/text_parts.hpp"
#include "topology/formats.hpp"
#include "topology/formats/infiniband.hpp"
#include "topology/words.hpp"

namespace terrace::detail {

namespace {

/// One line, read from the left.
class line_reader {
public:
    explicit line_reader(std::string_view text) : rest_(text) {}

    bool skip(std::string_view what) {
        skip_blanks();
        if (!rest_.starts_with(what)) return false;
        rest_.remove_prefix(what.size());
        return true;
    }
    /// Skips a group in these brackets if one comes next; returns true if it is closed.
    bool skip_group(char open, char close) {
        skip_blanks();
        if (!rest_.starts_with(open)) return false;
        const std::size_t end = rest_.find(close);
        rest_.remove_prefix(end == rest_.npos ? rest_.size() : end + 1);
        return end != rest_.npos;
    }
    /// Reads a text in quotes; returns nothing if none comes next.
    std::optional<std::string> quoted() {
        skip_blanks();
        const std::size_t end = rest_.starts_with('"') ? rest_.find('"', 1) : rest_.npos;
        if (end == rest_.npos) return {};
        std::string text(rest_.substr(1, end - 1));
        rest_.remove_prefix(end + 1);
        return text;
    }
    bool skip_number() {
        skip_blanks();
        const std::string_view before = rest_;
        while (!rest_.empty() && is_digit(rest_.front())) rest_.remove_prefix(1);
        return rest_.size() < before.size();
    }
    std::string_view rest() const { return rest_; }

private:
    void skip_blanks() {
        while (rest_.starts_with(' ') || rest_.starts_with('\t')) rest_.remove_prefix(1);
    }
    std::string_view rest_;
};

// Returns the rate of "4xNDR" at the end of a line [B/s]; 0 if the line has none.
double rate_at_end_of(std::string_view line) {
    const std::vector<std::string_view> words = split_at_blanks(line);
    const std::size_t times = words.empty() ? line.npos : words.back().find('x');
    if (times == line.npos) return 0;
    return infiniband_rate(words.back().substr(0, times + 1), words.back().substr(times + 1));
}

// A record is a line `Switch PORTS "ID" # "description" ...`, and a line for each port that has a link: `[3]
// "PEER"[1](guid) # "description" lid 7 4xNDR`. Records of adapters (Ca, Hca) repeat the same cables and are skipped.
class ibnetdiscover_reader : public fabric_reader {
    void read_line(std::string_view text, int line) override {
        line_reader r(text);
        if (r.skip("[")) {
            if (in_switch_) fabric_.switches.back().ports.push_back(port(text, line));
            return;
        }
        const bool is_switch = r.skip("Switch");
        if (!is_switch && !r.skip("Ca") && !r.skip("Hca") && !r.skip("Rt")) return;  // vendid=, comments, messages
        if (!r.skip_number()) return;
        const std::optional<std::string> id = r.quoted();
        if (!id || id->empty()) fail(line, "the record has no \"id\" in quotes; print the fabric again");
        in_switch_ = is_switch;
        if (!is_switch) return;
        fabric_.switches.push_back({{line, 1}, *id, {}});
        if (r.skip("#")) fabric_.switches.back().description = r.quoted().value_or("");
    }

    infiniband_fabric::port port(std::string_view text, int line) const {
        line_reader r(text);
        infiniband_fabric::port p;
        if (!r.skip_group('[', ']')) fail(line, "the port's number is not closed with ]");
        const std::optional<std::string> peer = r.quoted();
        if (!peer || peer->empty()) fail(line, "the port has no \"peer\" in quotes; print the fabric again");
        p.peer = *peer;
        r.skip_group('[', ']');
        r.skip_group('(', ')');
        if (r.skip("#")) p.description = r.quoted().value_or("");
        p.rate = rate_at_end_of(r.rest());
        return p;
    }
};

// True if a line begins a record, or is the first comment of ibnetdiscover. Messages may come before it.
bool is_ibnetdiscover(const source_start& start) {
    if (!start.is_file) return false;
    bool found = false;
    for_each_line(start.text, [&](std::string_view line, int) {
        line_reader r(line);
        found |= line.starts_with("# Topology file: generated on") ||
                 ((r.skip("Switch") || r.skip("Ca") || r.skip("Hca")) && r.skip_number() && r.quoted());
    });
    return found;
}

}  // namespace

topology_format ibnetdiscover_format() {
    return {"ibnetdiscover", "InfiniBand's ibnetdiscover", is_ibnetdiscover,
            [](const std::string& file, const read_options&) { return ibnetdiscover_reader().read(file); }};
}

}  // namespace terrace::detail
