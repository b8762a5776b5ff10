#include <array>

#include <fmt/format.h>

#include "base/index.hpp"
#include "schedule/interval_map.hpp"
#include "schedule/verify/proof.hpp"
#include "schedule/verify/stages.hpp"

namespace terrace::detail::proof {

namespace {

// Determines whether one instruction has always completed when another starts.
class happens_before {
public:
    explicit happens_before(const network& net) : net_(net) {}

    bool holds(std::size_t first, std::size_t then) {
        bool direct = false;
        net_.for_each_successor(first, [&](std::size_t after) { direct |= after == then; });
        return direct || path(first, then, false) || path(first, then, true);
    }

private:
    // Events are starts and completions. A completion comes before its successors' starts, a start before its own
    // completion and, for a send, before the receive's completion; no more, since sends may be buffered.
    bool path(std::size_t first, std::size_t then, bool through_messages) {
        std::vector<bool> seen(2 * net_.size(), false);
        std::vector<std::size_t> to_do;  // 2 * id: start; 2 * id + 1: completion
        const auto reach = [&](std::size_t event) {
            if (!seen[event]) to_do.push_back(event);
            seen[event] = true;
        };
        reach(2 * first + 1);
        while (!to_do.empty() && !seen[2 * then]) {
            const std::size_t event = to_do.back(), id = event / 2;
            to_do.pop_back();
            if (event % 2 == 0) {
                reach(event + 1);
                if (through_messages && net_.instruction(id).what == action::send) reach(2 * net_.partner(id) + 1);
            } else {
                // Without messages no path leads back in program order.
                net_.for_each_successor(id, [&](std::size_t after) {
                    if (through_messages || after <= then) reach(2 * after);
                });
            }
        }
        return seen[2 * then];
    }

    const network& net_;
};

// Every access must come after the last write before it in program order, and a write after the reads since then.
// Chains of these order all conflicting pairs. Pairs that conflict out of place also do in place.
void check_races(const network& net, const schedule& s, const stake& mine, const stages& with) {
    struct accesses {
        std::int64_t writer = -1;
        std::vector<std::int64_t> readers;
    };
    std::array<interval_map<accesses>, buffers> memory;  // send and recv are one, by place
    const auto of = [&](const operand& o) -> interval_map<accesses>& {
        return memory[static_cast<std::size_t>(o.where == buffer::send ? buffer::recv : o.where)];
    };
    happens_before order(net);
    std::vector<std::int64_t> before;
    for (std::size_t n = 0; n < s.instrs.size(); ++n) {
        const instr& i = s.instrs[n];
        const auto me = static_cast<std::int64_t>(n);
        before.clear();
        const auto read = [&](const operand& o) {
            of(o).update(mine.place(o), [&](accesses& a) {
                if (a.writer >= 0) before.push_back(a.writer);
                if (a.readers.empty() || a.readers.back() != me) a.readers.push_back(me);
            });
        };
        const auto write = [&](const operand& o) {
            of(o).update(mine.place(o), [&](accesses& a) {
                if (a.writer >= 0) before.push_back(a.writer);
                before.insert(before.end(), a.readers.begin(), a.readers.end());
                a.writer = me;
                a.readers.clear();
            });
        };
        for_each_read(s, i, read);
        if (is_stage(i.what) && i.sources == 0) read({with.own_part(net.id(s.rank, n)), i.src.part});
        if (writes(i.what)) write(i.dst);
        // A result that peers cannot access is written where they read the rank's input.
        if (i.what == action::stage_allreduce && i.dst.where != i.src.where && i.src.where == buffer::scratch)
            write({i.src.where, s.groups[at(i.peer)].own_shard()});
        keep_different(before);
        for (std::int64_t b : before)
            if (b != me && !order.holds(net.id(s.rank, static_cast<std::size_t>(b)), net.id(s.rank, n)))
                refuse(s, n, fmt::format("may run before instruction {}, which uses the same elements, is over", b));
    }
}

}  // namespace

void check_races(const network& net, const contract& terms, const stages& with) {
    for (const schedule& s : net.schedules()) check_races(net, s, terms.of(s.rank), with);
}

}  // namespace terrace::detail::proof
