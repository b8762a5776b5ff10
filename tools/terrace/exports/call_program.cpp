#include "tools/terrace/exports/call_program.hpp"

#include <algorithm>
#include <deque>
#include <map>

#include <fmt/format.h>

#include <terrace/error.hpp>

#include "base/index.hpp"
#include "schedule/chunk_order.hpp"
#include "schedule/machine_schedules.hpp"

namespace terrace::detail {

expectation call_program::terms() const {
    const int size = static_cast<int>(ranks.size());
    expectation of{.root = root, .blocks = {}, .marks_completion = false};
    if (row_of(what).blocks) of.blocks = equal_blocks(size, elements / size);  // the verifier refuses a remainder
    return of;
}

program_collector::program_collector(int ranks, collective what, std::int64_t elements, int root)
    : made_{what, elements, root, {}}, entries_(at(ranks)), used_(at(ranks)) {}

int program_collector::add(int rank, action what, const operand& dst, std::vector<operand> sources,
                           std::span<const int> after) {
    std::vector<entry>& mine = entries_[at(rank)];
    const auto note = [&](const operand& o) {
        std::int64_t& used = used_[at(rank)][static_cast<std::size_t>(o.where)];
        used = std::max(used, o.part.end);
    };
    note(dst);
    std::ranges::for_each(sources, note);
    mine.push_back({what, dst, std::move(sources), {after.begin(), after.end()}});
    ++all_;
    return static_cast<int>(mine.size()) - 1;
}

void program_collector::pair(int from, int send, int to, int recv) {
    entry &out = entries_[at(from)][at(send)], &in = entries_[at(to)][at(recv)];
    out.peer = to, out.partner = recv;
    in.peer = from, in.partner = send;
}

operand program_collector::fresh_scratch(int rank, std::int64_t count) {
    std::int64_t& end = used_[at(rank)][static_cast<std::size_t>(buffer::scratch)];
    end += count;
    return {buffer::scratch, {end - count, end}};
}

// Runs all instructions once, as early as their waits allow. Both ends of a message have the same turn.
void program_collector::order(std::string_view source) {
    struct place {
        int rank, number;
    };
    std::vector<std::vector<int>> open(entries_.size());  // number of instructions that each one waits for
    std::vector<std::vector<std::vector<int>>> later(entries_.size());
    std::deque<place> ready;
    for (std::size_t rank = 0; rank < entries_.size(); ++rank) {
        later[rank].resize(entries_[rank].size());
        for (std::size_t n = 0; n < entries_[rank].size(); ++n) {
            std::vector<int>& after = entries_[rank][n].after;
            keep_different(after);
            open[rank].push_back(static_cast<int>(after.size()));
            for (const int before : after) later[rank][at(before)].push_back(static_cast<int>(n));
            if (after.empty()) ready.push_back({static_cast<int>(rank), static_cast<int>(n)});
        }
    }
    int turn = 0;
    std::size_t done = 0;
    const auto complete = [&](place p) {
        entries_[at(p.rank)][at(p.number)].turn = turn;
        ++done;
        for (const int next : later[at(p.rank)][at(p.number)])
            if (--open[at(p.rank)][at(next)] == 0) ready.push_back({p.rank, next});
    };
    for (; !ready.empty(); ready.pop_front()) {
        const place now = ready.front();
        const entry& e = entries_[at(now.rank)][at(now.number)];
        if (e.partner >= 0) {
            int& waiting = open[at(now.rank)][at(now.number)];
            waiting = -1;
            if (open[at(e.peer)][at(e.partner)] >= 0) continue;  // the other end is not ready
            complete({e.peer, e.partner});
        }
        complete(now);
        ++turn;
    }
    if (done == all_) return;
    for (std::size_t rank = 0; rank < entries_.size(); ++rank)
        for (std::size_t n = 0; n < entries_[rank].size(); ++n)
            if (entries_[rank][n].turn < 0)
                throw input_error(std::string(source), 0, 0,
                                  fmt::format("rank {}: instruction {} ({}) can never run: what it waits for waits for "
                                              "it in the end",
                                              rank, n, to_string(entries_[rank][n].what)));
}

schedule program_collector::packed(int rank) {
    std::vector<entry>& mine = entries_[at(rank)];
    schedule s;
    s.rank = rank;
    s.ranks = static_cast<int>(entries_.size());
    s.what = made_.what;
    s.count = made_.elements;
    s.send = used_[at(rank)][static_cast<std::size_t>(buffer::send)];
    s.recv = used_[at(rank)][static_cast<std::size_t>(buffer::recv)];
    s.scratch = used_[at(rank)][static_cast<std::size_t>(buffer::scratch)];
    s.phases = {phase{}};
    std::vector<int> order = numbers_below(static_cast<int>(mine.size())), number(mine.size());
    std::ranges::sort(order, {}, [&](int n) { return mine[at(n)].turn; });
    for (std::size_t n = 0; n < order.size(); ++n) number[at(order[n])] = static_cast<int>(n);
    std::vector<std::vector<std::uint32_t>> successors(mine.size());
    std::map<std::pair<int, bool>, int> channels;
    for (const int n : order) {
        const entry& e = mine[at(n)];
        instr i;
        i.what = e.what;
        i.step = e.turn;
        i.peer = e.peer;
        i.dst = e.dst;
        i.waits = static_cast<std::uint32_t>(e.after.size());
        if (e.partner >= 0) i.channel = channels[{i.peer, i.what == action::send}]++;
        for (const int before : e.after)
            successors[at(number[at(before)])].push_back(static_cast<std::uint32_t>(s.instrs.size()));
        if (e.what == action::reduce) {
            i.first_source = static_cast<std::uint32_t>(s.sources.size());
            i.sources = static_cast<std::uint32_t>(e.sources.size());
            s.sources.insert(s.sources.end(), e.sources.begin(), e.sources.end());
        } else if (!e.sources.empty()) {
            i.src = e.sources[0];
        }
        s.instrs.push_back(i);
    }
    for (std::size_t n = 0; n < s.instrs.size(); ++n) {
        s.instrs[n].first_successor = static_cast<std::uint32_t>(s.successors.size());
        s.instrs[n].successors = static_cast<std::uint32_t>(successors[n].size());
        s.successors.insert(s.successors.end(), successors[n].begin(), successors[n].end());
    }
    return s;
}

call_program program_collector::finish(std::string_view source) {
    order(source);
    for (int rank = 0; rank < static_cast<int>(entries_.size()); ++rank) made_.ranks.push_back(packed(rank));
    return std::move(made_);
}

namespace {

operand moved(operand o, std::int64_t callers, std::int64_t scratch) {
    const std::int64_t by = o.where == buffer::scratch ? scratch : callers;
    return {o.where, {o.part.begin + by, o.part.end + by}};
}

// Adds a chunk of all ranks.
// @param at_element first element of the chunk in the caller's buffers
// @param ends by rank: instructions that the chunk waits for; is set to those that the lane's next chunk waits for
void add_chunk(program_collector& all, const std::vector<schedule>& chunk, std::int64_t at_element,
               std::vector<std::vector<int>>& ends) {
    std::map<std::tuple<int, int, int>, int> sends, receives;  // by from, to and channel
    for (const schedule& s : chunk) {
        const std::int64_t scratch = all.fresh_scratch(s.rank, s.scratch).part.begin;
        std::vector<std::vector<int>> after(s.instrs.size());
        std::vector<int> last;
        for (std::size_t n = 0; n < s.instrs.size(); ++n) {
            const instr& from = s.instrs[n];
            std::vector<operand> sources;
            for (const operand& o : s.sources_of(from)) sources.push_back(moved(o, at_element, scratch));
            if (from.what != action::recv && from.what != action::reduce)
                sources.push_back(moved(from.src, at_element, scratch));
            const operand dst = from.what == action::send ? operand{} : moved(from.dst, at_element, scratch);
            if (from.waits == 0) after[n] = ends[at(s.rank)];
            const int number = all.add(s.rank, from.what, dst, std::move(sources), after[n]);
            for (const std::uint32_t next : s.successors_of(from)) after[next].push_back(number);
            if (from.successors == 0) last.push_back(number);
            if (from.what == action::send) sends[{s.rank, from.peer, from.channel}] = number;
            if (from.what == action::recv || from.what == action::recv_reduce)
                receives[{from.peer, s.rank, from.channel}] = number;
        }
        if (!last.empty()) ends[at(s.rank)] = last;
    }
    for (const auto& [way, recv] : receives) all.pair(std::get<0>(way), sends.at(way), std::get<1>(way), recv);
}

}  // namespace

std::vector<schedule> message_schedules(const call_layout& layout, int ranks) {
    std::vector<schedule> all;
    for (int r = 0; r < ranks; ++r) all.push_back(layout.schedule_of(r, {}, buffer::recv));
    return all;
}

call_program program_of(const plan_data& plan, collective what, std::int64_t bytes) {
    const int ranks = plan.machine.ranks();
    const rule& how = plan.choose(what, bytes);
    collective_call call = call_of_bytes(ranks, what, bytes);
    call.rounds_on_wire = false;
    const slicing cut = slice_call(call, how, ranks, {});
    const auto schedules_of = [&](std::int64_t count) {
        return message_schedules({plan.machine, how.stages, call.chunk(count)}, ranks);
    };
    const std::vector<schedule> tail = schedules_of(cut.tail), full = cut.chunks > 1 ? schedules_of(cut.chunk) : tail;
    program_collector all(ranks, what, call.elements());
    const chunk_order order{.chunks = cut.chunks, .lanes = how.lanes};
    const std::vector<std::vector<int>> no_ends(at(ranks));
    std::vector ends(at(how.lanes), no_ends);  // by lane
    for (std::int64_t k = 0; k < cut.chunks; ++k)
        add_chunk(all, order.is_tail(k) ? tail : full, k * cut.chunk, ends[at(order.lane_of(k))]);
    return all.finish("the plan");
}

}  // namespace terrace::detail
