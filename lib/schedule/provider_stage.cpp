#include "schedule/provider_stage.hpp"

#include <algorithm>

#include "base/index.hpp"

namespace terrace::detail {

provider_stage memory_stage(const stage_work& work, const group& g, bool in_place) {
    const auto part = [&](std::int64_t count) {
        return static_cast<double>(count) / static_cast<double>(g.whole().count());
    };
    const bool reads_all = work.round(0).part == extent::whole;
    provider_stage made;
    made.shared = reads_all && work.round(0).from_root;
    made.flag_waits = work.closes() ? 2 : 1;
    for (int member = 0; member < g.size(); ++member) {
        double exposed = 0, accesses = 0;
        for (int reader = 0; reader < g.size(); ++reader) {
            std::int64_t read = 0;
            for (int r = 0; r < work.rounds(); ++r) read += work.read(r, reader, member, g.shards()).count();
            if (reader == member || read == 0) continue;
            made.moves.push_back({0, 1, member, reader, part(read)});
            exposed = reads_all ? std::max(exposed, part(read)) : exposed + part(read);
        }
        for (int r = 0; r < work.rounds(); ++r) accesses += part(work.touched(r, member, in_place, g.shards()));
        const std::int64_t own = work.round(0).adds ? work.read(0, member, member, g.shards()).count() : 0;
        made.accesses.push_back(accesses);
        made.handled.push_back(reads_all ? 1 : part(g.shard(member).count()));
        made.exposed.push_back(exposed);
        made.read_again.push_back(part(own));
    }
    return made;
}

provider_stage nccl_stage(action what, const group& g) {
    constexpr int accesses_to_add = 3;  // two reads, one write
    const double size = g.size(), once = (size - 1) / size;
    const bool has_root = what == action::stage_reduce || what == action::stage_broadcast;
    const bool scatters = what == action::stage_scatter;
    provider_stage made;
    made.accesses.assign(at(g.size()), accesses_to_add * (what == action::stage_reduce ? 1 : reduces(what) ? once : 0));
    made.handled.assign(at(g.size()), has_root ? 1 : 1 / size);
    made.exposed.resize(at(g.size()));
    made.read_again.resize(at(g.size()));
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
