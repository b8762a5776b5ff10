#include "planner/provider_stage.hpp"

#include <algorithm>

#include "base/index.hpp"

namespace terrace::detail {

provider_stage memory_stage(const stage_work& work, const group& g, bool in_place) {
    const auto part = [&](std::int64_t count) {
        return static_cast<double>(count) / static_cast<double>(g.whole().count());
    };
    const stage_round& round = work.round(0);
    provider_stage made;
    made.shared = round.part == extent::whole && round.from_root;
    made.flag_waits = work.closes() ? 2 : 1;
    for (int member = 0; member < g.size(); ++member) {
        double exposed = 0;
        for (int reader = 0; reader < g.size(); ++reader) {
            const double read = part(work.read(0, reader, member, g.shards()).count());
            if (reader == member || read == 0) continue;
            made.moves.push_back({0, 1, member, reader, read});
            exposed = round.part == extent::whole ? std::max(exposed, read) : exposed + read;
        }
        made.exposed.push_back(exposed);
        made.work.push_back(part(work.touched(0, member, in_place, g.shards())));
    }
    return made;
}

provider_stage nccl_stage(action what, const group& g) {
    const double size = g.size(), once = (size - 1) / size;
    const bool has_root = what == action::stage_reduce || what == action::stage_broadcast;
    const bool scatters = what == action::stage_scatter;
    provider_stage made;
    made.work.assign(at(g.size()), what == action::stage_reduce ? 1 : reduces(what) ? once : 0);
    for (int i = 0; i < g.size(); ++i) {
        if (scatters || what == action::stage_gather) {
            if (!g.seen_from(i).is_root())
                made.moves.push_back({0, 1, scatters ? g.root() : i, scatters ? i : g.root(), 1 / size});
            continue;
        }
        const double around = has_root ? 1 : what == action::stage_allreduce ? 2 * once : once;
        made.moves.push_back({0, 1, i, (i + 1) % g.size(), around});
    }
    return made;
}

}  // namespace terrace::detail
