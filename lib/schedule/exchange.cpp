#include "schedule/exchange.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <vector>

#include <fmt/format.h>

#include "base/index.hpp"
#include "schedule/builder.hpp"

namespace terrace::detail {

namespace {

// The data that one rank sends to another.
struct block {
    int from = 0, to = 0;
    friend auto operator<=>(const block&, const block&) = default;
};

int steps_of(const algorithm& by, const group& g) {
    const std::vector<operand> nothing(at(g.size()));
    builder out(g.rank(0), g.size(), collective::alltoall, 0);
    by.exchange(out, g, nothing, nothing);
    return out.step();
}

class exchange_writer {
public:
    exchange_writer(const block_layout& b, const tree& shape, const collective_call& call, int rank)
        : layout_(b.c),
          shape_(shape),
          call_(call),
          rank_(rank),
          through_one_(b.through_one),
          order_(at(b.c.ranks)),
          out_(rank, b.c.ranks, call.what, call.elements(), {buffer::recv, false}) {
        for (int r = 0; r < b.c.ranks; ++r) order_[at(static_cast<int>(b.blocks[at(r)].begin))] = r;
        for (int to = 0; to < b.c.ranks; ++to)
            if (passes({rank, to})) lies_[{rank, to}] = given_for(to);
    }

    schedule run() {
        out_.next_step();
        if (passes({rank_, rank_})) out_.copy(due_from(rank_), given_for(rank_));
        const auto goes = [&](const composed_stage& s) {
            return exchange_goes(call_.what, through_one_ ? mode::root : s.how, down_);
        };
        for (const composed_stage& s : layout_.stages)
            if (goes(s)) run_stage(s);
        down_ = true;
        for (std::size_t s = layout_.stages.size(); s-- > 0;)
            if (goes(layout_.stages[s])) run_stage(layout_.stages[s]);
        return out_.finish();
    }

private:
    bool passes(const block& b) const {
        if (call_.what == collective::gather) return b.to == call_.root;
        return call_.what != collective::scatter || b.from == call_.root;
    }
    std::int64_t count_of(const block& b) const {
        return call_.blocks[at(call_.what == collective::gather ? b.from : b.to)].count();
    }
    // In a gather the send buffer, and in a scatter the receive buffer, has only the rank's own block.
    operand given_for(int to) const {
        if (call_.what == collective::gather) return {buffer::send, {0, call_.blocks[at(rank_)].count()}};
        return {buffer::send, call_.blocks[at(to)]};
    }
    operand due_from(int from) const {
        if (call_.what == collective::scatter) return {buffer::recv, {0, call_.blocks[at(rank_)].count()}};
        return {buffer::recv, call_.blocks[at(from)]};
    }

    void run_stage(const composed_stage& s) {
        const int first = out_.step();
        out_.begin_phase({s.number, down_, 0});
        for (const int index : s.groups_of(rank_)) {
            const group& g = s.groups[at(index)];
            if (g.whole().empty()) continue;
            out_.go_to_step(first);
            run_group(s, g.seen_by(rank_));
        }
        out_.go_to_step(first + s.steps_up);
    }

    // Returns the blocks that one member of a group sends to another. On the way up: from all ranks of the sender's
    // domain to all ranks whose elements the receiver owns. On the way down: from all ranks whose elements the sender
    // owns to all ranks of the receiver's domain.
    std::vector<block> passing(const composed_stage& s, const group& g, int from, int to) const {
        if (s.how == mode::root) return passing_root(s, g, from, to);
        const range owned = g.shard(down_ ? from : to);
        const int level = s.number - 1, domain = shape_.domain_of(level, g.rank(down_ ? to : from));
        std::vector<block> list;
        for (std::int64_t k = owned.begin; k < owned.end; ++k) {
            const int owner = order_[static_cast<std::size_t>(k)];
            for (int r = shape_.first_rank(level, domain); r < shape_.first_rank(level, domain + 1); ++r)
                if (const block b = down_ ? block{owner, r} : block{r, owner}; passes(b)) list.push_back(b);
        }
        return list;
    }

    // The same in mode root. On the way up: from all ranks of a member's domain to ranks elsewhere whose elements the
    // root owns. On the way down: from all ranks elsewhere to those of the member's domain.
    std::vector<block> passing_root(const composed_stage& s, const group& g, int from, int to) const {
        std::vector<block> list;
        if (g.root() != (down_ ? from : to)) return list;
        const int level = s.number - 1, domain = shape_.domain_of(level, g.rank(down_ ? to : from));
        const int first = shape_.first_rank(level, domain), end = shape_.first_rank(level, domain + 1);
        for (std::int64_t k = g.whole().begin; k < g.whole().end; ++k) {
            const int owner = order_[static_cast<std::size_t>(k)];
            const bool is_there = owner >= first && owner < end;
            if (is_there != down_) continue;
            for (int r = down_ ? 0 : first; r < (down_ ? layout_.ranks : end); ++r)
                if (!down_ || r < first || r >= end) list.push_back({r, owner});
        }
        return list;
    }

    void run_group(const composed_stage& s, const group& g) {
        std::vector<operand> gives(at(g.size())), gets(at(g.size()));
        std::vector<std::vector<block>> arriving(at(g.size()));
        for (int peer = 0; peer < g.size(); ++peer) {
            if (peer == g.position()) continue;
            gives[at(peer)] = packed(passing(s, g, g.position(), peer));
            arriving[at(peer)] = passing(s, g, peer, g.position());
            gets[at(peer)] = room_for(arriving[at(peer)]);
        }
        s.by->exchange(out_, g, gives, gets);
        for (int peer = 0; peer < g.size(); ++peer) unpack(arriving[at(peer)], gets[at(peer)]);
    }

    std::int64_t count_of(const std::vector<block>& list) const {
        std::int64_t count = 0;
        for (const block& b : list) count += count_of(b);
        return count;
    }

    // Appends an operand. Joins it to the last one if the two are adjacent.
    static void append(std::vector<operand>& runs, operand more) {
        if (more.part.empty()) return;
        if (!runs.empty() && runs.back().where == more.where && runs.back().part.end == more.part.begin)
            runs.back().part.end = more.part.end;
        else runs.push_back(more);
    }

    // Returns the blocks in one piece: at their place if they are consecutive there, else copied.
    operand packed(const std::vector<block>& list) {
        std::vector<operand> runs;
        for (const block& b : list) append(runs, lies_.at(b));
        if (runs.empty()) return {};
        if (runs.size() == 1) return runs.front();
        const operand all = out_.scratch(count_of(list));
        std::int64_t begin = all.part.begin;
        for (const operand& run : runs) {
            out_.copy(operand{all.where, {begin, begin + run.part.count()}}, run);
            begin += run.part.count();
        }
        return all;
    }

    // Returns memory for blocks that arrive in one piece: the caller's if they go there side by side, else scratch.
    operand room_for(const std::vector<block>& list) {
        std::vector<operand> runs;
        for (const block& b : list) {
            if (b.to != rank_) return out_.scratch(count_of(list));
            append(runs, due_from(b.from));
        }
        if (runs.empty()) return {};
        return runs.size() == 1 ? runs.front() : out_.scratch(count_of(list));
    }

    // Copies the rank's own blocks to the caller, and records the places of the others.
    void unpack(const std::vector<block>& list, const operand& from) {
        std::int64_t begin = from.part.begin;
        std::vector<operand> sources, places;
        for (const block& b : list) {
            const operand now{from.where, {begin, begin + count_of(b)}};
            begin = now.part.end;
            if (b.to != rank_) lies_[b] = now;
            else if (from.where == buffer::scratch) add_copy(sources, places, now, due_from(b.from));
        }
        for (std::size_t i = 0; i < sources.size(); ++i) out_.copy(places[i], sources[i]);
    }

    static void add_copy(std::vector<operand>& sources, std::vector<operand>& places, operand from, operand to) {
        const bool goes_on =
            !sources.empty() && sources.back().part.end == from.part.begin && places.back().part.end == to.part.begin;
        if (goes_on) sources.back().part.end = from.part.end, places.back().part.end = to.part.end;
        else if (!from.part.empty()) sources.push_back(from), places.push_back(to);
    }

    const composition& layout_;
    const tree& shape_;
    const collective_call& call_;
    int rank_;
    bool through_one_;        // block_layout::through_one
    bool down_ = false;       // direction of the current stage
    std::vector<int> order_;  // ranks, in the order of the vector that stages divide
    builder out_;
    std::map<block, operand> lies_;  // places of blocks that are or have been here
};

}  // namespace

stage_fault fault_of_exchange(std::span<const stage> stages, collective what) {
    for (int n = 0; n < static_cast<int>(stages.size()); ++n) {
        const stage& s = stages[at(n)];
        if (row_of(what).has_root() && s.how != stages.front().how)
            return std::pair(n, fmt::format("mode {} after mode {}; stages of {} have one mode", to_string(s.how),
                                            to_string(stages.front().how), to_string(what)));
        const algorithm* by = find_algorithm(s);
        if (!can(s.how, what))
            return std::pair(
                n, fmt::format("mode {} cannot exchange blocks; only scatter and root can", to_string(s.how)));
        if (by == nullptr || by->exchange == nullptr)
            return std::pair(n, fmt::format("{} cannot exchange blocks; these algorithms can: {}",
                                            s.sends() ? s.algorithm : to_string(s.provider), exchanger_names()));
        if (!s.shares.empty() || s.route_share > 0)
            return std::pair(n, std::string("an exchange of blocks has neither shares nor route_share; remove them"));
    }
    return {};
}

block_layout compose_exchange(const hierarchy& machine, std::span<const stage> stages, collective what) {
    expect_none(fault_of_exchange(stages, what));
    // In a gather or scatter the same groups run in either mode.
    std::vector<stage> meeting(stages.begin(), stages.end());
    if (row_of(what).has_root())
        for (stage& s : meeting) s.how = mode::scatter;
    block_layout made = in_blocks(compose(machine, meeting, fine_count(machine), 1), machine, stages,
                                  std::vector<std::int64_t>(at(machine.ranks()), 1));
    for (composed_stage& s : made.c.stages) {
        s.steps_up = s.steps_down = 0;
        for (group& g : s.groups) {
            g = g.with_nodes(nodes_of(machine, g.members()));
            if (!g.whole().empty()) s.steps_up = std::max(s.steps_up, steps_of(*s.by, g));
        }
    }
    made.through_one = row_of(what).has_root() && stages.front().how == mode::root;
    return made;
}

schedule generate_exchange(const block_layout& b, const tree& shape, const collective_call& call, int rank) {
    return exchange_writer(b, shape, call, rank).run();
}

bool exchange_goes(collective what, mode how, bool down) noexcept {
    if (row_of(what).has_root()) return down == ((what == collective::scatter) == (how == mode::root));
    return !down || how == mode::root;
}

// Counts the blocks of exchange_writer::passing(). On the way up they go from all ranks behind one member (in its child
// domain) to all ranks whose elements the other owns, and on the way down the reverse. So their number is a product; in
// mode root, of the member's ranks and the ranks elsewhere. Gather and scatter move only blocks of the root, which is
// behind a member or owns one of its elements.
group_moves exchange_moves(const exchange_stage& s, const group& g, int apart) {
    const double ranks = s.shape.ranks();
    const bool has_root = row_of(s.what).has_root(), root_is_behind = (s.what == collective::scatter) != s.down;
    std::vector<double> behind, owned;
    for (int i = 0; i < g.size(); ++i) {
        const range child = ranks_around(s.shape, s.level - 1, g.rank(i));
        behind.push_back(static_cast<double>(child.count()));
        owned.push_back(static_cast<double>(g.shard(i).count()) / static_cast<double>(s.count) * ranks);
        if (has_root && root_is_behind) behind.back() = child.begin == 0 ? 1 : 0;
        if (has_root && !root_is_behind) owned.back() = g.shard(i).overlaps(s.of_root) ? 1 : 0;
        if (s.how == mode::root) behind.back() *= ranks - behind.back(), owned.back() = i == g.root() ? 1 : 0;
    }
    const std::vector<double>&from = s.down ? owned : behind, &to = s.down ? behind : owned;
    group_moves made{.startups = s.by.startups(g.size())};
    made.circulant = g.size() > apart && !has_root && s.how == mode::scatter;
    made.alone = has_root && !root_is_behind;
    made.reduced.resize(made.circulant ? 1 : at(g.size()));
    if (made.circulant) {
        double sum = 0;
        const double of_all = std::accumulate(owned.begin(), owned.end(), 0.0);
        for (int i = 0; i < g.size(); ++i) sum += behind[at(i)] * (of_all - owned[at(i)]);
        for (int j = 1; j < g.size(); ++j)
            made.messages.push_back({0, 1, 0, j, sum / g.size() / (g.size() - 1) / ranks});
        return made;
    }
    constexpr double rounded_away = 1e-9;  // smaller numbers of blocks come from rounded cuts
    const auto with_blocks = [&](const std::vector<double>& blocks) {
        std::vector<int> positions;
        for (int i = 0; i < g.size(); ++i)
            if (blocks[at(i)] > rounded_away) positions.push_back(i);
        return positions;
    };
    const std::vector<int> receivers = with_blocks(to);
    for (const int i : with_blocks(from))
        for (const int j : receivers)
            if (i != j) made.messages.push_back({0, 1, i, j, from[at(i)] * to[at(j)] / ranks});
    return made;
}

// In reduce_scatter and allgather all blocks are copied to the vector or from it, and the rank's own the other way. In
// alltoall, blocks to the same rank are joined between stages: each stage copies all of them. After a stage of mode
// root one rank does so for its whole domain. In gather and scatter, mode root copies the blocks of a domain before
// each stage but the first, mode scatter all blocks of the root.
double copied_vectors(const hierarchy& machine, std::span<const stage> stages, collective what) {
    const double own = 1.0 / machine.ranks();
    if (!row_of(what).exchange) return own + 1;
    if (stages.size() == 1) return own;
    const tree shape = stage_tree(machine, stages);
    double copied = 0;
    if (!row_of(what).has_root()) {
        double vectors = 1;  // vectors that one rank has
        for (std::size_t s = 0; s < stages.size(); ++s) {
            copied += vectors;
            if (stages[s].how == mode::root) vectors *= std::ranges::max(shape.children()[s]);
        }
        return copied;
    }
    if (stages.front().how == mode::scatter) return own + 1;
    for (int level = 0; level + 1 < shape.depth(); ++level) {
        int most = 1;  // ranks of the largest domain
        for (int d = 0; d < shape.domains(level); ++d)
            most = std::max(most, shape.first_rank(level, d + 1) - shape.first_rank(level, d));
        copied += most * own;
    }
    return own + copied;
}

}  // namespace terrace::detail
