#include "bench/discover/hypothesis.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace terrace::detail::bench {

namespace {

constexpr double unlimited = std::numeric_limits<double>::infinity();

// The streams that cross each link.
class link_streams {
public:
    link_streams(const stream_paths& paths, std::size_t links) : begins_(links + 1) {
        for (std::size_t s = 0; s < paths.size(); ++s)
            for (const int link : paths[s]) ++begins_[at(link) + 1];
        std::partial_sum(begins_.begin(), begins_.end(), begins_.begin());
        streams_.resize(begins_.back());
        std::vector<std::size_t> next(begins_.begin(), begins_.end() - 1);
        for (std::size_t s = 0; s < paths.size(); ++s)
            for (const int link : paths[s]) streams_[next[at(link)]++] = s;
    }

    std::span<const std::size_t> operator[](std::size_t link) const noexcept {
        return {streams_.data() + begins_[link], begins_[link + 1] - begins_[link]};
    }

private:
    std::vector<std::size_t> begins_;  // start of each link's streams; then the end of the last ones
    std::vector<std::size_t> streams_;
};

constexpr double worst_misfit = 0.7;  // largest misfit of one stream: half or twice the rate

double misfit_of(double seen, double expected) {
    return std::min(std::abs(std::log(std::max(seen, 1.0) / expected)), worst_misfit);
}

}  // namespace

std::vector<double> fair_rates(const stream_paths& paths, std::span<const double> capacity) {
    const link_streams over(paths, capacity.size());
    std::vector<double> rates(paths.size(), unlimited), left(capacity.begin(), capacity.end());
    std::vector<double> share(left.size());  // rate of each stream that still waits for the link
    std::vector<std::size_t> waiting(left.size()), open, full;
    const auto divide = [&](std::size_t l) {
        if (waiting[l] > 0) share[l] = left[l] / static_cast<double>(waiting[l]);
    };
    for (std::size_t l = 0; l < left.size(); ++l) {
        waiting[l] = over[l].size();
        divide(l);
        if (waiting[l] > 0) open.push_back(l);
    }
    while (!open.empty()) {
        double least = unlimited;
        for (const std::size_t l : open) least = std::min(least, share[l]);
        full.clear();
        for (const std::size_t l : open)
            if (share[l] <= least * (1 + 1e-9)) full.push_back(l);
        for (const std::size_t filled : full)
            for (const std::size_t s : over[filled]) {
                if (rates[s] != unlimited) continue;
                rates[s] = least;
                for (const int link : paths[s]) {
                    left[at(link)] = std::max(0.0, left[at(link)] - least);
                    --waiting[at(link)];
                    divide(at(link));
                }
            }
        std::erase_if(open, [&](std::size_t l) { return waiting[l] == 0; });
    }
    return rates;
}

links_of::links_of(const groupings& levels) : levels_(levels) {
    for (const grouping& g : levels) {
        first_.push_back(count_);
        count_ += 2 * g.count;
    }
}

stream_paths links_of::paths(std::span<const stream> all) const {
    stream_paths found;
    for (const stream& s : all) {
        for (std::size_t l = 0; l < levels_.size(); ++l) {
            const int from = levels_[l].of[at(s.from)], to = levels_[l].of[at(s.to)];
            if (from == to) break;
            found.add_link(up(l, from));
            found.add_link(up(l, to) + 1);
        }
        found.end_stream();
    }
    return found;
}

hypothesis::hypothesis(const std::vector<observation>& seen, groupings levels)
    : levels_(std::move(levels)), links_(levels_), capacity_(at(links_.count())) {
    std::vector<stream_paths> all_paths;
    for (const observation& o : seen) {
        const stream_paths& paths = all_paths.emplace_back(links_.paths(o.between));
        std::vector<double> carried(capacity_.size());
        for (std::size_t s = 0; s < paths.size(); ++s)
            for (const int link : paths[s]) carried[at(link)] += o.rates[s];
        for (std::size_t l = 0; l < carried.size(); ++l) capacity_[l] = std::max(capacity_[l], carried[l]);
    }
    for (std::size_t l = 0; l < capacity_.size(); l += 2)  // both directions have the same rate
        capacity_[l] = capacity_[l + 1] = std::max({capacity_[l], capacity_[l + 1], 1.0});
    for (std::size_t i = 0; i < seen.size(); ++i) {
        expected_.push_back(fair_rates(all_paths[i], capacity_));
        for (std::size_t s = 0; s < seen[i].rates.size(); ++s)
            off_.push_back(misfit_of(seen[i].rates[s], expected_[i][s]));
    }
}

double misfit(const switch_tree& tree, const std::vector<observation>& seen) {
    groupings levels;
    for (const switch_level& l : tree) levels.push_back(l.groups);
    const links_of links(levels);
    std::vector<double> capacity(at(links.count()));
    for (std::size_t l = 0; l < tree.size(); ++l)
        for (int g = 0; g < tree[l].groups.count; ++g)
            capacity[at(links.up(l, g))] = capacity[at(links.up(l, g) + 1)] = tree[l].rates[at(g)];
    double sum = 0;
    std::size_t streams = 0;
    for (const observation& o : seen) {
        const std::vector<double> rates = fair_rates(links.paths(o.between), capacity);
        for (std::size_t s = 0; s < rates.size(); ++s) sum += misfit_of(o.rates[s], rates[s]);
        streams += rates.size();
    }
    return streams == 0 ? 0 : sum / static_cast<double>(streams);
}

}  // namespace terrace::detail::bench
