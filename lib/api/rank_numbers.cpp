#include "api/rank_numbers.hpp"

#include <chrono>
#include <cstdint>

#include <fmt/format.h>

#include "base/index.hpp"

namespace terrace::detail {

// With its number each rank says when it is: the time of the first one tells communicators apart.
void rank_numbers::gather(team& all) {
    struct greeting {
        std::int64_t time, rank;
    };
    std::vector<greeting> said(at(all.size()));
    const greeting mine{std::chrono::system_clock::now().time_since_epoch().count(), own};
    all.gather_all(&mine, said.data(), sizeof mine);
    communicator = fmt::format("{:x}-{}", said.front().time, all.world_rank(0));
    for (const greeting& g : said) callers.push_back(static_cast<int>(g.rank));
    world.resize(callers.size());
    for (int r = 0; r < all.size(); ++r) world[at(callers[at(r)])] = all.world_rank(r);
}

std::vector<int> rank_numbers::world_by_plan() const {
    std::vector<int> ranks;
    for (const int r : callers) ranks.push_back(world[at(r)]);
    return ranks;
}

}  // namespace terrace::detail
