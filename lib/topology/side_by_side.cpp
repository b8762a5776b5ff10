#include "topology/side_by_side.hpp"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include <fmt/format.h>

#include <terrace/error.hpp>

#include "base/index.hpp"
#include "machine/devices.hpp"

namespace terrace::detail {

namespace {

// Shared memory and what connects sockets are both memory.
bool alike(fabric a, fabric b) { return a == b || (is_memory(a) && is_memory(b)); }

// A level that some kinds have.
struct shared_level {
    std::string given, name;  // as the kinds call it, and so that no two are called the same
    fabric medium;
    std::vector<int> index;  // by kind: which of its levels it is; -1 where it has none
};

std::string free_name(const std::vector<shared_level>& all, const level& l) {
    std::string name = l.name;
    const auto taken = [&](const shared_level& s) { return s.name == name; };
    while (std::any_of(all.begin(), all.end(), taken)) name += fmt::format("-{}", to_string(l.medium));
    return name;
}

// All levels, innermost first: each kind has some of them, in the same order.
std::vector<shared_level> shared_levels(std::span<const hierarchy> kinds, std::span<const int> node_kind) {
    std::vector<bool> used(kinds.size());
    for (const int k : node_kind) used[at(k)] = true;
    std::vector<shared_level> all;
    for (std::size_t k = 0; k < kinds.size(); ++k) {
        if (!used[k]) continue;
        auto next = all.begin();  // what is outside the last one
        for (int l = 0; l < kinds[k].depth(); ++l) {
            const level& own = kinds[k].levels[at(l)];
            auto place = std::find_if(all.begin(), all.end(), [&](const shared_level& s) {
                return s.given == own.name && alike(s.medium, own.medium);
            });
            if (place == all.end())
                place =
                    all.insert(next, {own.name, free_name(all, own), own.medium, std::vector<int>(kinds.size(), -1)});
            else if (place < next)
                throw usage_error(
                    fmt::format("level \"{}\" lies inside \"{}\" in one kind of node, and outside it in "
                                "another; rename one of them",
                                own.name, (next - 1)->given));
            place->index[k] = l;
            next = place + 1;
        }
    }
    return all;
}

}  // namespace

inner_levels side_by_side(std::span<const hierarchy> kinds, std::span<const int> node_kind) {
    inner_levels made;
    std::vector<int> members;  // the children that each kind of node has left to join
    for (const hierarchy& k : kinds) members.push_back(k.ranks());
    for (const shared_level& s : shared_levels(kinds, node_kind)) {
        std::optional<level> found;
        for (std::size_t k = 0; k < kinds.size(); ++k) {
            if (s.index[k] < 0) continue;
            const level& own = kinds[k].levels[at(s.index[k])];
            if (!found) found = own;
            found->latency = std::max(found->latency, own.latency);
            found->overhead = std::max(found->overhead, own.overhead);
            found->bandwidth_assumed |= own.bandwidth_assumed;
            found->latency_assumed |= own.latency_assumed;
            found->overhead_assumed |= own.overhead_assumed;
            found->bandwidth = std::max(found->bandwidth, own.bandwidth);
        }
        found->name = s.name;
        found->names.clear();  // those of one node's domains
        std::vector<double> rates;
        std::vector<int>& sizes = made.children.emplace_back();
        for (const int k : node_kind) {
            const int l = s.index[at(k)];
            // A level that joins nothing has no link of its own; any rate will do.
            for (int c = 0; c < members[at(k)]; ++c)
                rates.push_back(l < 0 ? found->bandwidth : kinds[at(k)].rate(l, c));
            if (l < 0) sizes.insert(sizes.end(), at(members[at(k)]), 1);
            else {
                const std::vector<int>& own = kinds[at(k)].shape.children()[at(l)];
                sizes.insert(sizes.end(), own.begin(), own.end());
            }
        }
        for (std::size_t k = 0; k < kinds.size(); ++k)
            if (s.index[k] >= 0) members[k] = kinds[k].shape.domains(s.index[k]);
        made.levels.push_back(with_rates(std::move(*found), std::move(rates)));
    }
    return made;
}

}  // namespace terrace::detail
