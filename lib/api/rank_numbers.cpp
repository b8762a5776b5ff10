#include "api/rank_numbers.hpp"

#include <chrono>
#include <cstdint>

#include <fmt/format.h>

#include "base/index.hpp"

namespace terrace::detail {

// Each rank sends its number and the time. The time of the first rank distinguishes communicators.
void rank_numbers::gather(team& all) {
    struct greeting {
        std::int64_t time, rank;
    };
    std::vector<greeting> said(at(all.size()));
    const greeting mine{std::chrono::system_clock::now().time_since_epoch().count(), own};
    all.gather_all(&mine, said.data(), sizeof mine);
    communicator = fmt::format("{:x}-{}", said.front().time, all.world_rank(0));
    world.resize(said.size());
    for (int r = 0; r < all.size(); ++r) {
        callers.push_back(static_cast<int>(said[at(r)].rank));
        world_by_plan.push_back(all.world_rank(r));
        world[at(callers.back())] = world_by_plan.back();
    }
}

}  // namespace terrace::detail
