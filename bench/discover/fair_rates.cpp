#include "bench/discover/fair_rates.hpp"

#include <algorithm>
#include <limits>
#include <numeric>

#include "base/index.hpp"

namespace terrace::detail::bench {

namespace {

constexpr double unlimited = std::numeric_limits<double>::infinity();

// By link, the streams that cross it.
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
    std::vector<std::size_t> begins_;  // by link; then the end of the last one
    std::vector<std::size_t> streams_;
};

}  // namespace

std::vector<double> fair_rates(const stream_paths& paths, std::span<const double> capacity) {
    const link_streams over(paths, capacity.size());
    std::vector<double> rates(paths.size(), unlimited), left(capacity.begin(), capacity.end());
    std::vector<double> share(left.size());  // of each stream that waits for the link
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

}  // namespace terrace::detail::bench
