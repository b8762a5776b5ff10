#include "topology/node_nics.hpp"

#include <array>
#include <limits>
#include <map>

#include "machine/rates.hpp"

namespace terrace::detail {

namespace {

// Returns the NICs that ranks use: NICs with RDMA if there are any, else all.
std::vector<int> network_cards(const part_list& parts) {
    const std::vector<int> all = parts.of_kind(part::kind::nic);
    std::vector<int> rdma = all;
    std::erase_if(rdma, [&](int i) { return !parts[i].rdma; });
    return rdma.empty() ? all : rdma;
}

// Returns the rate of the fastest usual network that a PCIe link carries [B/s]; 0 if there is none.
double port_rate(double link) {
    constexpr std::array<double, 7> usual{1.25e8, 1.25e9, 3.125e9, 12.5e9, 25e9, 50e9, 100e9};
    const auto above = std::upper_bound(usual.begin(), usual.end(), link);
    return above == usual.begin() ? 0 : *(above - 1);
}

}  // namespace

void assign_nics(const part_list& parts, const std::vector<int>& ranks) {
    const std::vector<int> cards = network_cards(parts);
    if (cards.empty()) return;
    const std::vector<int> counts = parts.counts(cards);
    std::map<int, std::size_t> turn;
    std::map<int, std::vector<int>> users;  // parts of ranks, by card
    for (const int r : ranks) {
        int place = r;
        while (counts[at(place)] == 0) place = parts.above(place);
        // In preorder, the parts inside `place` directly follow it.
        const auto first = std::lower_bound(cards.begin(), cards.end(), place);
        const std::size_t choice = turn[place]++ % static_cast<std::size_t>(counts[at(place)]);
        const int number = *(first + static_cast<std::ptrdiff_t>(choice));
        part& card = parts[number];
        card.used = true;
        users[number].push_back(r);
        parts[r].nearest_nic = card.name;
        parts[r].nic_within = parts[place].what;
    }
    int used = 0;
    for (const auto& [card, of] : users) {
        for (const int r : of) parts[r].nic_number = used;
        ++used;
    }
}

std::optional<uplink> uplink_of(const part& machine) {
    part copy = machine;
    const part_list parts(copy);
    std::vector<int> cards = network_cards(parts);
    const auto unused = [&](int i) { return !parts[i].used; };
    if (!std::ranges::all_of(cards, unused)) std::erase_if(cards, unused);
    std::optional<uplink> all;
    struct ports {
        int number = 0;
        double rate = 0;  // of all together [B/s]
    };
    std::map<int, ports> slots;
    for (const int i : cards) {
        const part& card = parts[i];
        const fabric medium = card.infiniband ? fabric::infiniband : fabric::ethernet;
        if (!all) all = uplink{medium, 0, false};
        if (medium == fabric::infiniband) all->medium = medium;
        const double assumed = port_rate(card.link);
        all->assumed |= card.rate <= 0;
        const double rate = card.rate > 0 ? card.rate : assumed > 0 ? assumed : default_rates(medium).bandwidth;
        ports& in_slot = slots[parts.within(i, part::kind::slot)];
        ++in_slot.number;
        in_slot.rate += rate;
        all->nics.push_back(rate);
    }
    for (int i = 0; all && i < parts.size(); ++i) {
        const part& p = parts[i];
        if (p.nic_number < 0) continue;
        if (all->of_rank.size() <= at(p.rank)) all->of_rank.resize(at(p.rank) + 1);
        all->of_rank[at(p.rank)] = p.nic_number;
    }
    for (const auto& [slot, ports] : slots) {
        const double link = parts[slot].link > 0 ? parts[slot].link : std::numeric_limits<double>::infinity();
        all->bandwidth += std::min(ports.rate, link);
        all->slots.push_back({ports.number, link});
    }
    return all;
}

}  // namespace terrace::detail
