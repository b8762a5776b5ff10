#include "topology/spines.hpp"

#include <algorithm>
#include <cstddef>
#include <map>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace terrace::detail {

namespace {

// "a, b, c and 5 more"
std::string some_of(const std::vector<std::string>& names) {
    constexpr std::size_t most = 4;
    std::string text = fmt::format("{}", fmt::join(names.begin(), names.begin() + std::min(most, names.size()), ", "));
    return names.size() > most ? fmt::format("{} and {} more", text, names.size() - most) : text;
}

class spine_joiner {
public:
    explicit spine_joiner(switch_network n) : net_(std::move(n)) {}

    switch_network take() {
        while (join()) rename();
        for (const auto& [one, all] : joined_)
            net_.notes.push_back(fmt::format("switches above the same ones are read as one: {}", some_of(all)));
        return std::move(net_);
    }

private:
    // Returns true if it joined some.
    bool join() {
        std::map<std::vector<std::string>, std::size_t> first;
        std::vector<network_switch> kept;
        now_.clear();
        for (network_switch& s : net_.switches) {
            std::vector<std::string> below = s.switches;
            std::ranges::sort(below);
            const auto [entry, is_new] =
                below.empty() || !s.nodes.empty() ? std::pair(first.end(), true) : first.emplace(below, kept.size());
            if (is_new || kept[entry->second].name == s.name) {  // a name given twice is an error of its own
                kept.push_back(std::move(s));
                continue;
            }
            network_switch& one = kept[entry->second];
            one.speed = one.speed && s.speed ? std::optional(*one.speed + *s.speed) : std::nullopt;
            one.speed_assumed |= s.speed_assumed;
            std::vector<std::string>& all = joined_.try_emplace(one.name, std::vector{one.name}).first->second;
            all.push_back(s.name);
            now_.emplace(s.name, one.name);
        }
        net_.switches = std::move(kept);
        return !now_.empty();
    }

    void rename() {
        for (network_switch& s : net_.switches) {
            std::vector<std::string> below;
            for (std::string& name : s.switches) {
                const auto found = now_.find(name);
                const std::string& is = found == now_.end() ? name : found->second;
                if (std::ranges::find(below, is) == below.end()) below.push_back(is);
            }
            s.switches = std::move(below);
        }
    }

    switch_network net_;
    std::unordered_map<std::string, std::string> now_;
    std::map<std::string, std::vector<std::string>> joined_;
};

}  // namespace

switch_network with_spines_joined(switch_network n) { return spine_joiner(std::move(n)).take(); }

}  // namespace terrace::detail
