#include "schedule/group_proof.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/index.hpp"
#include "schedule/group_replay.hpp"
#include "schedule/lower.hpp"
#include "schedule/verify.hpp"

namespace terrace::detail {

namespace {

std::string kind_of(const composed_stage& s, const group& g) {
    std::string kind = fmt::format("{} {} {} {} ", s.by->name, to_string(s.how), to_string(s.wire), g.members().size());
    if (s.how == mode::root || g.root() != group::no_root) kind += fmt::format("root {} ", g.root());
    if (s.how == mode::root) return kind;
    for (const range& shard : g.shards()) kind += shard.empty() ? '0' : '1';
    return kind;
}

std::string kind_of_exchange(const composed_stage& s, const group& g) {
    std::string kind = fmt::format("exchange {} {}, nodes", s.by->name, g.members().size());
    for (const int node : g.nodes()) kind += fmt::format(" {}", node - g.nodes().front());
    return kind;
}

// One group alone, its members renamed and its shards cut down to one element each.
composition alone(const composed_stage& s, const group& g) {
    const int size = static_cast<int>(g.members().size());
    composition c{.ranks = size, .root = g.root(), .count = 0, .stages = {}, .owners = {}, .routes = {}};
    std::vector<int> members;
    std::vector<range> shards;
    for (int i = 0; i < size; ++i) {
        members.push_back(i);
        shards.push_back({c.count, c.count + !g.shards()[at(i)].empty()});
        c.count = shards.back().end;
        if (s.how == mode::scatter) c.owners.push_back({shards.back(), {i}, 0});
    }
    if (s.how == mode::root) c.owners = {{{0, c.count}, {g.root()}, 0}};
    if (s.how == mode::replicate) c.owners = {{{0, c.count}, members, 0}};
    c.stages.push_back({.how = s.how,
                        .by = s.by,
                        .steps_up = s.steps_up,
                        .steps_down = s.steps_down,
                        .steps_at_root = s.steps_at_root,
                        .largest = size,
                        .meets_root = g.root() != group::no_root,
                        .groups = {group(std::move(members), std::move(shards), g.root()).with_nodes(g.nodes())},
                        .of_rank = std::vector(at(size), std::vector{0}),
                        .wire = s.wire});
    return c;
}

// Blocks are handed on as in mode scatter from a root. Steps are enough for any algorithm.
composed_stage handing_of(const composed_stage& s) {
    composed_stage hands;
    hands.by = s.by->supports(mode::scatter) ? s.by : find_algorithm("direct");
    hands.steps_up = hands.steps_down = hands.steps_at_root = 2 * s.largest;
    return hands;
}

// The programs of a group alone, as messages and, where a provider runs it, as one stage: for the vector at home in
// shared memory of Terrace's or in the callers' buffers.
std::optional<std::string> prove_alone(const composition& c) {
    const composed_stage& s = c.stages.front();
    const group& g = s.groups.front();
    capabilities runs_all;
    runs_all.stages = ~0u;
    const auto prove = [&](collective what, const capabilities& can, buffer home) {
        std::vector<std::int64_t> begins;
        for (const range& shard : g.shards()) begins.push_back(shard.begin);
        std::vector<schedule> programs;
        for (int r = 0; r < c.ranks; ++r)
            programs.push_back(lower(row_of(what).blocks ? generate(block_layout{c, g.shards()}, what, r, begins)
                                                         : generate(c, what, r, can, home),
                                     can));
        return find_fault(programs,
                          {.root = g.root(), .blocks = row_of(what).blocks ? g.shards() : std::vector<range>{}});
    };
    std::vector<collective> parts{collective::allreduce};
    if (s.how == mode::scatter) parts = {collective::reduce_scatter, collective::allgather};
    if (s.how == mode::root || g.root() != group::no_root) parts = {collective::reduce, collective::broadcast};
    for (const collective what : parts)
        if (const auto fault = prove(what, {}, buffer::recv)) return fmt::format("{}: {}", to_string(what), *fault);
    if (!follows_buffers(s.by->provider)) return {};
    if (s.how == mode::scatter) parts.push_back(collective::allreduce);
    for (const collective what : parts)
        for (const buffer home : {buffer::scratch, buffer::recv})
            if (const auto fault = prove(what, runs_all, home))
                return fmt::format("{} in shared memory: {}", to_string(what), *fault);
    return {};
}

// The programs of a group alone, each member with one element for each other one whose shard is not empty.
std::optional<std::string> prove_exchange_alone(const composed_stage& s, const group& g) {
    const composition c = alone(s, g);
    const group& of = c.stages.front().groups.front();
    std::vector<schedule> programs;
    std::vector<range> blocks;
    for (int r = 0; r < c.ranks; ++r) blocks.push_back({r, r + 1});
    for (int r = 0; r < c.ranks; ++r) {
        builder out(r, c.ranks, collective::alltoall, c.ranks, {buffer::recv, false});
        std::vector<operand> gives, gets;
        for (const range b : blocks) gives.push_back({buffer::send, b}), gets.push_back({buffer::recv, b});
        out.next_step();
        out.copy(gets[at(r)], gives[at(r)]);
        s.by->exchange(out, of.seen_from(r), gives, gets);
        programs.push_back(lower(out.finish(), {}));
    }
    return find_fault(programs, {.root = 0, .blocks = blocks});
}

}  // namespace

bool group_proof::is_new(std::string kind) {
    const std::scoped_lock lock(mutex_);
    return proved_.insert(std::move(kind)).second;
}

std::optional<std::string> group_proof::prove_groups(const composed_stage& s, std::span<const group> groups,
                                                     bool exchanges) {
    for (const group& g : groups) {
        if (g.whole().empty() || !is_new(exchanges ? kind_of_exchange(s, g) : kind_of(s, g))) continue;
        if (const auto fault = exchanges ? prove_exchange_alone(s, g) : prove_alone(alone(s, g)))
            return fmt::format("{} over {} ranks, mode {}, {}", s.by->name, g.members().size(), to_string(s.how),
                               *fault);
    }
    return {};
}

std::optional<std::string> group_proof::prove_groups(const composition& c, bool exchanges) {
    for (const composed_stage& s : c.stages) {
        if (auto fault = prove_groups(s, s.groups, exchanges)) return fault;
        if (auto fault = prove_groups(handing_of(s), s.handing, false)) return fault;
    }
    return {};
}

std::optional<std::string> group_proof::find_fault(const composition& c) {
    if (auto fault = replay_groups(c, false)) return fault;
    return prove_groups(c, false);
}

std::optional<std::string> group_proof::find_exchange_fault(const block_layout& b) {
    if (auto fault = check_blocks(b)) return fault;
    if (auto fault = replay_groups(b.c, true)) return fault;
    return prove_groups(b.c, true);
}

std::optional<std::string> group_proof::find_fault(const block_layout& b) {
    if (auto fault = check_blocks(b)) return fault;
    if (auto fault = replay_groups(b.c, true)) return fault;
    return prove_groups(b.c, false);
}

std::optional<std::string> group_proof::check_blocks(const block_layout& b) const {
    std::vector<range> owned(b.blocks.size());
    for (const terrace::detail::owned& o : b.c.owners)
        for (const int rank : o.owners) {
            const int route = std::max(o.route - 1, 0);
            range& all = owned[at(route * b.c.ranks + rank)];
            if (o.part.empty()) continue;
            all = all.empty() ? o.part : range{std::min(all.begin, o.part.begin), std::max(all.end, o.part.end)};
        }
    for (std::size_t i = 0; i < owned.size(); ++i)
        if (!b.blocks[i].empty() && !(owned[i] == b.blocks[i]))
            return fmt::format("rank {} does not end with its own block", i % at(b.c.ranks));
    return {};
}

}  // namespace terrace::detail
