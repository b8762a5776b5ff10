#include "planner/provider_stage.hpp"

#include <algorithm>

#include "base/index.hpp"
#include "planner/policy.hpp"

namespace terrace::detail {

// A member that adds up a shard for the others waits for all to arrive, and for all to have done that.
provider_stage memory_stage(const stage_work& work, const division& d, bool in_place) {
    const std::vector<range> shards = shards_of(d);
    const double elements = static_cast<double>(shards.back().end);
    const stage_round& round = work.round(0);
    const bool alike = d.parts.empty() && d.size > policy.large_group;
    provider_stage made;
    made.shared = round.part == extent::whole && round.from_root;
    made.flag_waits = round.adds && round.part == extent::readers_shard ? 2 : 1;
    made.moves.circulant = alike && !round.by_root && !round.from_root;
    exchange& reads = made.moves.exchanges.emplace_back();
    const auto work_of = [&](int member) {
        double exposed = 0;
        for (int reader = 0; reader < d.size; ++reader) {
            const double part = static_cast<double>(work.read(0, reader, member, shards).count()) / elements;
            if (reader == member || part == 0) continue;
            if (!made.moves.circulant || member == 0) reads.messages.push_back({member, reader, part});
            exposed = round.part == extent::whole ? std::max(exposed, part) : exposed + part;
        }
        made.exposed.push_back(exposed);
        made.moves.reduced.push_back(static_cast<double>(work.touched(0, member, in_place, shards)) / elements);
    };
    const int different = made.moves.circulant ? 1 : d.size;
    for (int member = 0; member < different; ++member) work_of(member);
    made.exposed.resize(at(d.size), made.exposed.back());
    made.moves.reduced.resize(at(d.size), made.moves.reduced.back());
    return made;
}

provider_stage nccl_stage(action what, const division& d) {
    provider_stage made;
    const double size = d.size, once = (size - 1) / size;
    const bool has_root = what == action::stage_reduce || what == action::stage_broadcast;
    const double added = what == action::stage_reduce ? 1 : reduces(what) ? once : 0;
    made.moves.reduced.assign(at(d.size), added);
    exchange& all = made.moves.exchanges.emplace_back();
    const bool scatters = what == action::stage_scatter;
    for (int i = 0; i < d.size; ++i) {
        if (scatters || what == action::stage_gather) {
            if (i != d.root) all.messages.push_back({scatters ? d.root : i, scatters ? i : d.root, 1 / size});
            continue;
        }
        const double around = has_root ? 1 : what == action::stage_allreduce ? 2 * once : once;
        all.messages.push_back({i, (i + 1) % d.size, around});
    }
    return made;
}

}  // namespace terrace::detail
