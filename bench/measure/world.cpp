#include "bench/measure/world.hpp"

#include <set>

#include <fmt/format.h>

#include "base/index.hpp"
#include "transport/team.hpp"

namespace terrace::detail::bench {

int world::host_count() const { return static_cast<int>(std::set<int>(hosts_.begin(), hosts_.end()).size()); }

void world::agree(bool ok, const std::string& message) const {
    const std::vector<int> failed = gather(!ok);
    std::vector<int> who;
    for (int r = 0; r < size(); ++r)
        if (failed[at(r)]) who.push_back(r);
    if (who.empty()) return;
    // If rank 0 fails, probably all ranks do, or only rank 0 has tried: the message need not name ranks.
    std::string text = who.front() == 0 ? message : fmt::format("{}: {}", ranks_named(who), message);
    throw refusal(text_from(who.front(), std::move(text)));
}

}  // namespace terrace::detail::bench
