#include "bench/discover/nics.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "base/index.hpp"

namespace terrace::detail::bench {

namespace {

constexpr double beyond_one_rank = 1.2;  // least ratio of the rates of all ranks and one, if a node has several NICs
constexpr double on_one_nic = 0.75;      // largest fraction of both rates alone that two streams get on one NIC
constexpr double other_rail = 0.8;       // largest fraction of its rate that a stream keeps off its rail
constexpr double as_much = 1.15;         // largest ratio of all streams to one, over a spine that one fills
constexpr int most_lanes = 16;

class nic_search {
public:
    nic_search(careful_probes& net, const std::vector<std::vector<int>>& nodes) : net_(net), nodes_(nodes) {
        for (std::size_t n = 0; n < nodes.size(); ++n)
            if (nodes[n].size() > nodes[largest_].size()) largest_ = n;
        for (std::size_t n = 0; n < nodes.size(); ++n)
            if (n != largest_ && (second_ == largest_ || nodes[n].size() > nodes[second_].size())) second_ = n;
    }

    found_nics find() {
        found_nics found;
        found.lanes.assign(nodes_.size(), 1);
        if (nodes_[largest_].size() < 2) return found;
        const std::size_t a = largest_, b = second_;
        double best_of_one = 0;
        for (const int target : nodes_[b])  // the first target may be on another rail
            if (best_of_one == 0 || nodes_[b].size() <= most_lanes)
                best_of_one = std::max(best_of_one, alone({nodes_[a].front(), target}));
        if (together(a, b) < beyond_one_rank * best_of_one) return found;
        found.rate = best_of_one;
        find_rails(found);
        if (!found.rails) find_shares(found);
        const bool has_several = std::ranges::any_of(found.of_rank, [](const std::vector<int>& of) {
            return std::ranges::any_of(of, [](int nic) { return nic > 0; });
        });
        if (!has_several) found.of_rank.clear();
        for (std::size_t n = 0; n < nodes_.size(); ++n)
            found.lanes[n] = std::min(static_cast<int>(nodes_[n].size()), has_several ? most_lanes : 4);
        return found;
    }

private:
    double alone(stream s) {
        const std::pair key(s.from, s.to);
        const auto known = alone_.find(key);
        return known != alone_.end() ? known->second : alone_.emplace(key, net_.rate(s)).first->second;
    }

    // Returns the total rate from the ranks of one node to those of another, in the better of two pairings.
    double together(std::size_t a, std::size_t b) {
        double best = 0;
        for (const std::size_t turn : {std::size_t{0}, std::size_t{1}}) {
            std::vector<stream> all;
            for (std::size_t i = 0; i < nodes_[a].size() && i < most_lanes; ++i)
                all.push_back({nodes_[a][i], nodes_[b][(i + turn) % nodes_[b].size()]});
            const std::vector<double> rates = net_.rates(all);
            best = std::max(best, std::accumulate(rates.begin(), rates.end(), 0.0));
        }
        return best;
    }

    bool share(std::size_t n, std::size_t i, std::size_t j) {
        const std::vector<int>& targets = nodes_[n == largest_ ? second_ : largest_];
        double best = 0;  // fraction of both rates alone; targets may share a NIC, too
        for (std::size_t x = 0; x < targets.size() && x < 4; ++x) {
            const std::size_t y = (x + 1 + x / 2) % targets.size();
            const stream both[] = {{nodes_[n][i], targets[x]}, {nodes_[n][j], targets[y]}};
            if (x == y) continue;
            const std::vector<double> rates = net_.rates(both);
            best = std::max(best, (rates[0] + rates[1]) / (alone(both[0]) + alone(both[1])));
            if (best > on_one_nic) return false;
        }
        return true;
    }

    void find_shares(found_nics& found) {
        std::map<std::size_t, std::vector<int>> of_size;  // nodes with equally many ranks count as equal
        for (std::size_t n = 0; n < nodes_.size(); ++n) {
            auto [known, is_new] = of_size.try_emplace(nodes_[n].size());
            if (is_new) {
                std::vector<std::size_t> leaders;
                for (std::size_t i = 0; i < nodes_[n].size(); ++i) {
                    std::size_t nic = 0;
                    while (nic < leaders.size() && !share(n, i, leaders[nic])) ++nic;
                    if (nic == leaders.size()) leaders.push_back(i);
                    known->second.push_back(static_cast<int>(nic));
                }
            }
            found.of_rank.push_back(known->second);
        }
    }

    // Finds rails by ranks of the largest node, one for each rail.
    void find_rails(found_nics& found) {
        const std::vector<int>& here = nodes_[largest_];
        const std::vector<int>& there = nodes_[second_];
        double least = found.rate;
        for (const int target : there) least = std::min(least, alone({here.front(), target}));
        if (least > other_rail * found.rate) return;
        std::vector<int> heads;  // first rank of the largest node on each rail
        // Finds the rail of each rank of the other node. Its head is a rank of the largest node with a full rate to it.
        std::vector<int> rails_there;
        for (const int rank : there) {
            int rail = -1;
            for (std::size_t h = 0; h < heads.size() && rail < 0; ++h)
                if (alone({heads[h], rank}) > other_rail * found.rate) rail = static_cast<int>(h);
            for (std::size_t i = 0; i < here.size() && rail < 0; ++i)
                if (alone({here[i], rank}) > other_rail * found.rate) {
                    rail = static_cast<int>(heads.size());
                    heads.push_back(here[i]);
                }
            rails_there.push_back(std::max(rail, 0));
        }
        std::vector<int> ends;  // a rank of each rail in the other node
        for (std::size_t h = 0; h < heads.size(); ++h)
            for (std::size_t r = 0; r < there.size() && ends.size() == h; ++r)
                if (rails_there[r] == static_cast<int>(h)) ends.push_back(there[r]);
        found.rails = heads.size() > 1;
        if (!found.rails) return;
        for (std::size_t n = 0; n < nodes_.size(); ++n) {
            std::vector<int>& of = found.of_rank.emplace_back();
            for (const int rank : nodes_[n]) {
                std::vector<double> rates;
                for (const int end : n == largest_ ? ends : heads) rates.push_back(alone({end, rank}));
                const auto best = std::max_element(rates.begin(), rates.end());
                of.push_back(*best < other_rail * found.rate ? 0 : static_cast<int>(best - rates.begin()));
            }
        }
        found.spine = spine_of(found);
    }

    // Returns the total rate of streams from the first rail to the second, one from each node. If one stream alone is
    // about as fast, its rate is more reliable: many streams over a slow link start and end at different times.
    double spine_of(const found_nics& found) {
        const auto of_rail = [&](std::size_t n, int rail) {
            for (std::size_t r = 0; r < nodes_[n].size(); ++r)
                if (found.of_rank[n][r] == rail) return nodes_[n][r];
            return -1;
        };
        std::vector<stream> all;
        for (std::size_t n = 0; n < nodes_.size(); ++n) {
            const stream s{of_rail(n, 0), of_rail((n + 1) % nodes_.size(), 1)};
            if (s.from >= 0 && s.to >= 0) all.push_back(s);
        }
        const std::vector<double> rates = net_.rates(all);
        const double together = std::accumulate(rates.begin(), rates.end(), 0.0);
        const double one = all.empty() ? 0 : alone(all.front());
        return together < as_much * one ? one : together;
    }

    careful_probes& net_;
    const std::vector<std::vector<int>>& nodes_;
    std::size_t largest_ = 0, second_ = 0;
    std::map<std::pair<int, int>, double> alone_;
};

}  // namespace

found_nics find_nics(careful_probes& net, const std::vector<std::vector<int>>& nodes) {
    return nic_search(net, nodes).find();
}

}  // namespace terrace::detail::bench
