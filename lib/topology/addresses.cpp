#include "topology/addresses.hpp"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

#include <terrace/error.hpp>

#include "base/letters.hpp"
#include "base/text_parts.hpp"
#include "machine/hierarchy_yaml.hpp"
#include "topology/formats/placed_nodes.hpp"

namespace terrace::detail {

namespace {

std::vector<std::string> parts_of(std::string_view text) {
    const std::vector<std::string_view> parts = split_at('.', text);
    return {parts.begin(), parts.end()};
}

bool can_name_level(std::string_view name) {
    const auto allowed = [](char c) { return is_letter(c) || is_digit(c) || c == '_' || c == '-'; };
    return !name.empty() && name != "node" && name != assumed_level && std::ranges::all_of(name, allowed);
}

// Returns the names of levels, outermost first, from the parts of a pattern without the last one.
std::vector<std::string> level_names(std::vector<std::string> names) {
    const auto l = static_cast<int>(names.size());
    for (int i = 0; i < l; ++i) {
        std::string& name = names[static_cast<std::size_t>(i)];
        if (name == "switch") name = switch_network{}.level_name(l - 1 - i);
        else if (!can_name_level(name)) throw usage_error(fmt::format("\"{}\" cannot name a level above nodes", name));
        if (std::ranges::count(names, name) > 1) throw usage_error(fmt::format("two levels are \"{}\"", name));
    }
    return names;
}

node_address address_of(const std::string& text, const std::string& host) {
    const std::size_t other = text.find('\0');
    try {
        node_address found = text.empty() || other == 0 ? node_address{} : parse_address(text.substr(0, other));
        if (other == text.npos) return found;
        if (other + 1 < text.size()) parse_address(text.substr(other + 1));
    } catch (const usage_error& e) {
        throw usage_error(fmt::format("host \"{}\": {}", host, e.what()));
    }
    throw usage_error(fmt::format("ranks of host \"{}\" have the addresses \"{}\" and \"{}\"", host,
                                  text.substr(0, other), text.substr(other + 1)));
}

}  // namespace

node_address parse_address(std::string_view text) {
    if (text.size() > max_address) throw usage_error(fmt::format("an address of more than {} characters", max_address));
    const auto printed = [](char c) { return c >= ' ' && c <= '~'; };
    if (!std::ranges::all_of(text, printed)) throw usage_error("an address with a character that is not printed");
    const std::string_view address = text.substr(0, text.find(' '));
    node_address found{{}, parts_of(address)};
    std::vector<std::string> pattern(found.within.size(), "switch");
    pattern.back() = "node";
    if (address.size() < text.size()) pattern = parts_of(text.substr(address.size() + 1));
    if (pattern.size() != found.within.size())
        throw usage_error(fmt::format("the address \"{}\" has {} parts, and its pattern {}", text, found.within.size(),
                                      pattern.size()));
    if (pattern.size() > max_levels)
        throw usage_error(fmt::format("an address of {} parts is too deep", pattern.size()));
    if (pattern.back() != "node" || found.within.back().empty())
        throw usage_error(fmt::format("the address \"{}\" does not end with the node", text));
    for (std::size_t i = found.within.size() - 1; i-- > 0;)
        if (found.within[i].empty()) found.within[i] = found.within[i + 1];
    found.within.pop_back();
    pattern.pop_back();
    found.levels = level_names(std::move(pattern));
    return found;
}

switch_network network_of_addresses(const std::vector<std::string>& addresses, const std::vector<std::string>& hosts) {
    std::vector<placed_node> nodes;
    std::vector<std::string> levels;
    std::unordered_map<std::string_view, std::size_t> known;
    for (std::size_t n = 0; n < hosts.size(); ++n) {
        nodes.push_back({{}, fmt::format("{}", n), {}});
        if (addresses.empty()) continue;
        const node_address own = address_of(addresses[n], hosts[n]);
        const auto refuse = [&](std::string_view what, std::size_t other) {
            throw usage_error(fmt::format("{}: host \"{}\" has \"{}\", host \"{}\" has \"{}\"", what, hosts[other],
                                          addresses[other], hosts[n], addresses[n]));
        };
        if (n == 0) levels = own.levels;
        if (addresses[n].empty() != addresses[0].empty()) refuse("not all hosts have an address", 0);
        if (own.levels != levels) refuse("addresses have different levels", 0);
        if (const auto [same, is_new] = known.emplace(addresses[n], n); !is_new && !addresses[n].empty())
            refuse("two hosts have one address", same->second);
        nodes.back().within = own.within;
    }
    return network_of("addresses", std::move(nodes), std::move(levels));
}

}  // namespace terrace::detail
