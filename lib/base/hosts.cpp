#include "base/hosts.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>

#include <fmt/format.h>

#include <terrace/error.hpp>

#include "base/letters.hpp"
#include "base/text_parts.hpp"

namespace terrace::detail {

namespace {

bool in_name(char c) { return is_digit(c) || is_letter(c) || c == '-' || c == '_' || c == '.'; }

constexpr std::size_t max_digits = 9;
constexpr std::size_t max_name = 255;
constexpr std::size_t max_text = 16 << 20;

// Returns the value of at most max_digits digits.
std::int64_t value_of(std::string_view digits) { return as_number<std::int64_t>(digits).value_or(0); }

class expander {
public:
    expander(std::string_view list, std::size_t most) : list_(list), most_(most) {}

    std::vector<std::string> all() {
        while (true) {
            one();
            if (at_ == list_.size()) return std::move(names_);
            expect(',');
        }
    }

private:
    [[noreturn]] void fail(std::string_view what) const {
        constexpr std::size_t shown = 60;
        throw usage_error(fmt::format("host list \"{}{}\": {}; write names and ranges as in tux[0-3,7]",
                                      list_.substr(0, shown), list_.size() > shown ? "..." : "", what));
    }
    char next() const { return at_ < list_.size() ? list_[at_] : '\0'; }
    void expect(char c) {
        if (next() != c)
            fail(at_ == list_.size() ? fmt::format("'{}' is missing at the end", c)
                                     : fmt::format("'{}' expected at character {}", c, at_ + 1));
        ++at_;
    }

    // Reads a name with any number of ranges. Adds every combination; the last range varies fastest.
    void one() {
        std::vector<std::string> names{""};
        const std::size_t start = at_;
        while (in_name(next()) || next() == '[') {
            const std::vector<std::string> parts = next() == '[' ? ranges() : std::vector{literal()};
            if (names.size() > (most_ - names_.size()) / parts.size()) fail(fmt::format("more than {} names", most_));
            std::vector<std::string> longer;
            longer.reserve(names.size() * parts.size());
            for (const std::string& name : names)
                for (const std::string& part : parts) longer.push_back(name + part);
            names = std::move(longer);
            if (names.front().size() > max_name) fail(fmt::format("a name of more than {} characters", max_name));
            if (names.size() * names.front().size() > max_text) fail("the names are too long for so many");
        }
        if (at_ == start) fail(fmt::format("a name expected at character {}", at_ + 1));
        names_.insert(names_.end(), std::make_move_iterator(names.begin()), std::make_move_iterator(names.end()));
    }

    std::string literal() {
        const std::size_t start = at_;
        while (in_name(next())) ++at_;
        return std::string(list_.substr(start, at_ - start));
    }

    // Reads ranges such as "[0-3,7]".
    std::vector<std::string> ranges() {
        std::vector<std::string> numbers;
        do {
            ++at_;
            const std::string_view low = digits();
            std::string_view high = low;
            if (next() == '-') {
                ++at_;
                high = digits();
            }
            const std::int64_t first = value_of(low), last = value_of(high);
            if (last < first) fail(fmt::format("range {}-{} runs backwards", low, high));
            if (static_cast<std::uint64_t>(last - first) >= most_ - std::min(most_, numbers.size()))
                fail(fmt::format("more than {} names", most_));
            for (std::int64_t n = first; n <= last; ++n) numbers.push_back(fmt::format("{:0{}}", n, low.size()));
        } while (next() == ',');
        expect(']');
        return numbers;
    }

    std::string_view digits() {
        const std::size_t start = at_;
        while (is_digit(next())) ++at_;
        if (at_ == start) fail(fmt::format("a number expected at character {}", at_ + 1));
        if (at_ - start > max_digits) fail(fmt::format("a number of more than {} digits", max_digits));
        return list_.substr(start, at_ - start);
    }

    std::string_view list_;
    std::size_t most_;
    std::size_t at_ = 0;
    std::vector<std::string> names_;
};

// A name, split around its last number.
struct numbered {
    std::string_view before, digits, after;
};

std::optional<numbered> parse(std::string_view name) {
    std::size_t end = name.size();
    while (end > 0 && !is_digit(name[end - 1])) --end;
    std::size_t start = end;
    while (start > 0 && is_digit(name[start - 1])) --start;
    if (start == end || end - start > max_digits) return {};
    return numbered{name.substr(0, start), name.substr(start, end - start), name.substr(end)};
}

// Returns the name up to its first dot; an IPv4 address as it is.
std::string_view short_name(std::string_view host) {
    return host.find_first_not_of("0123456789.") == host.npos ? host : host.substr(0, host.find('.'));
}

// Returns a list of hosts that is short enough for a message.
std::string some(std::span<const std::string> hosts) {
    const std::string all = fold_hosts(hosts);
    constexpr std::size_t most = 200;
    return all.size() <= most ? all : fmt::format("{} to {}", hosts.front(), hosts.back());
}

}  // namespace

std::string host_name() {
    std::array<char, 65> own{};  // the maximum on Linux, with the final 0
    if (::gethostname(own.data(), own.size() - 1) != 0) own = {};
    return own.data();
}

std::vector<std::string> expand_hosts(std::string_view list, std::size_t most) { return expander(list, most).all(); }

std::string fold_hosts(std::span<const std::string> names) {
    std::string text;
    for (std::size_t i = 0; i < names.size();) {
        if (!text.empty()) text += ',';
        const auto first = parse(names[i]);
        std::string ranges;
        std::size_t count = 0;
        // Collects runs of numbers between the same texts.
        for (; first && i < names.size(); ++i, ++count) {
            const auto start = parse(names[i]);
            if (!start || start->before != first->before || start->after != first->after) break;
            numbered last = *start;
            for (; i + 1 < names.size(); ++i, ++count) {
                const auto next = parse(names[i + 1]);
                const std::string successor = fmt::format("{:0{}}", value_of(last.digits) + 1, last.digits.size());
                // A range with leading zeros is not extended to longer numbers: 00-99 and 100 stay apart.
                const bool padded = start->digits.size() > 1 && start->digits.front() == '0';
                if (!next || next->before != last.before || next->after != last.after || next->digits != successor ||
                    (padded && next->digits.size() != start->digits.size()))
                    break;
                last = *next;
            }
            ranges += fmt::format("{}{}", ranges.empty() ? "" : ",", start->digits);
            if (last.digits != start->digits) ranges += fmt::format("-{}", last.digits);
        }
        if (!first) text += names[i++];
        else if (count == 1) text += names[i - 1];
        else text += fmt::format("{}[{}]{}", first->before, ranges, first->after);
    }
    return text;
}

host_index::host_index(std::span<const std::string> hosts, std::string owner)
    : hosts_(hosts), owner_(std::move(owner)) {
    for (std::size_t n = 0; n < hosts.size(); ++n) {
        by_name_.emplace(hosts[n], n);
        if (const std::string_view start = short_name(hosts[n]); start != hosts[n]) by_short_name_.emplace(start, n);
    }
}

std::size_t host_index::find(std::string_view name) const {
    // If two names match, either this name or the name of the host is the short one.
    for (const std::string_view same : {name, short_name(name)})
        if (const auto found = by_name_.find(same); found != by_name_.end()) return found->second;
    std::vector<std::string> meant;
    const auto [first, last] = by_short_name_.equal_range(name);
    for (auto host = first; host != last; ++host) meant.push_back(hosts_[host->second]);
    if (meant.size() == 1) return first->second;
    if (meant.empty()) throw usage_error(fmt::format("host \"{}\" is none of {}, {}", name, owner_, some(hosts_)));
    std::sort(meant.begin(), meant.end());
    throw usage_error(
        fmt::format("host \"{}\" may be any of {} {}; write its name in full", name, owner_, some(meant)));
}

}  // namespace terrace::detail
