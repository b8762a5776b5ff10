#include <array>
#include <string_view>

#include <fmt/format.h>

#include "schedule/verify/proof.hpp"

namespace terrace::detail::proof {

std::string text(const operand& o) {
    constexpr std::array<std::string_view, buffers> names{"send", "recv", "scratch", "wire"};
    return fmt::format("{}[{}, {})", names[static_cast<std::size_t>(o.where)], o.part.begin, o.part.end);
}

void refuse(const schedule& s, std::size_t n, const std::string& why) {
    const instr& i = s.instrs[n];
    throw fault{fmt::format("rank {}, instruction {} ({}, step {}): {}", s.rank, n, to_string(i.what), i.step, why)};
}

namespace {

class form {
public:
    form(const schedule& s, const stake& mine) : s_(s), mine_(mine), waits_(s.instrs.size(), 0) {}

    void check() {
        for (std::size_t n = 0; n < s_.instrs.size(); ++n) check_instr(n);
        for (std::size_t n = 0; n < s_.instrs.size(); ++n)
            if (s_.instrs[n].waits != waits_[n])
                refuse(
                    s_, n,
                    fmt::format("waits for {} instructions, but is a successor of {}", s_.instrs[n].waits, waits_[n]));
    }

private:
    void check_instr(std::size_t n) {
        const instr& i = s_.instrs[n];
        if (i.what > last_action) throw fault{fmt::format("rank {}, instruction {}: no such action", s_.rank, n)};
        if (is_stage(i.what)) check_stage(n);
        if (i.phase >= s_.phases.size()) refuse(s_, n, "no such phase");
        if (n > 0 && i.step < s_.instrs[n - 1].step) refuse(s_, n, "steps do not ascend");
        if (is_message(i.what) && (i.peer < 0 || i.peer >= s_.ranks || i.peer == s_.rank))
            refuse(s_, n, fmt::format("no such peer as {}", i.peer));
        if (i.completes && !reduces(i.what)) refuse(s_, n, "only a reduction completes");
        check_order(n);
        check_operands(n);
    }

    void check_stage(std::size_t n) {
        const instr& i = s_.instrs[n];
        if (!follows_buffers(i.by)) refuse(s_, n, "a stage that runs elsewhere: lower the schedule first");
        if (i.peer < 0 || at(i.peer) >= s_.groups.size()) refuse(s_, n, "no such group");
        const group& g = s_.groups[at(i.peer)];
        const std::vector<int>& members = g.members();
        const bool has_no_root = i.what == action::stage_reduce_scatter || i.what == action::stage_allgather ||
                                 i.what == action::stage_allreduce;
        bool sound = g.size() > 1 && g.shards().size() == members.size() && (g.root() >= 0 || has_no_root) &&
                     g.root() < g.size() && g.position() == g.position_of(s_.rank);
        for (int p = 0; sound && p < g.size(); ++p)
            sound = members[at(p)] >= 0 && members[at(p)] < s_.ranks && g.position_of(members[at(p)]) == p &&
                    (p == 0 || g.shards()[at(p)].begin == g.shards()[at(p - 1)].end);
        if (!sound) refuse(s_, n, "its group is none");
        if (i.sources > 1) refuse(s_, n, "a stage keeps one part to itself at most");
    }

    void check_order(std::size_t n) {
        const instr& i = s_.instrs[n];
        if (std::uint64_t{i.first_successor} + i.successors > s_.successors.size()) refuse(s_, n, "no such successors");
        for (std::uint32_t after : s_.successors_of(i)) {
            if (after <= n || after >= s_.instrs.size())
                refuse(s_, n, fmt::format("instruction {} cannot come after it", after));
            ++waits_[after];
        }
    }

    void check_operands(std::size_t n) {
        const instr& i = s_.instrs[n];
        if (i.what == action::reduce) {
            if (std::uint64_t{i.first_source} + i.sources > s_.sources.size()) refuse(s_, n, "no such sources");
            if (i.sources < 2) refuse(s_, n, "a reduction takes two operands at least");
        }
        check_wire(n);
        if (is_stage(i.what) && std::uint64_t{i.first_source} + i.sources > s_.sources.size())
            refuse(s_, n, "no such sources");
        if (writes(i.what)) {
            check_bounds(n, i.dst);
            if (i.dst.where == buffer::send) refuse(s_, n, "writes what the caller passed in");
        }
        for_each_read(s_, i, [&](const operand& o) {
            check_bounds(n, o);
            if (i.what == action::send && o.part.empty()) refuse(s_, n, "an empty message");
            if (!writes(i.what) || is_stage(i.what)) return;  // proof::stages checks them
            if (o.part.count() != i.dst.part.count())
                refuse(s_, n, fmt::format("{} and {} differ in count", text(o), text(i.dst)));
            // Elements are processed in any order: an operand may be the destination, but not overlap it partly.
            const range from = mine_.place(o), to = mine_.place(i.dst);
            if (same_memory(o.where, i.dst.where, true) && from.overlaps(to) && from != to)
                refuse(s_, n, fmt::format("{} overlaps {}", text(o), text(i.dst)));
        });
    }

    // Checks that only conversions and messages use the wire buffer.
    void check_wire(std::size_t n) {
        const instr& i = s_.instrs[n];
        const auto expect = [&](const operand& o, bool encoded) {
            if ((o.where == buffer::wire) != encoded)
                refuse(s_, n, fmt::format("{} {} in the wire type", text(o), encoded ? "is not" : "is"));
            if (encoded && o.part.begin % wire_block != 0)
                refuse(s_, n, fmt::format("{} does not begin with a block", text(o)));
        };
        const bool typed = i.wire != wire_type::exact;
        const bool converts = i.what == action::encode || i.what == action::decode;
        if (converts != typed && !(typed && is_message(i.what) && i.what != action::recv_reduce))
            refuse(s_, n, typed ? "has a wire type, but is no conversion or message" : "converts to no wire type");
        if (writes(i.what)) expect(i.dst, typed && i.what != action::decode);
        for_each_read(s_, i, [&](const operand& o) { expect(o, typed && i.what != action::encode); });
    }

    void check_bounds(std::size_t n, const operand& o) {
        if (o.where > buffer::wire) refuse(s_, n, "no such buffer");
        const std::int64_t end = std::array{s_.send, s_.recv, s_.scratch, s_.wire}[static_cast<std::size_t>(o.where)];
        if (o.part.begin < 0 || o.part.end < o.part.begin || o.part.end > end)
            refuse(s_, n, fmt::format("{} lies outside of the buffer's {} elements", text(o), end));
        if (!mine_.holds(o))
            refuse(s_, n,
                   fmt::format("{} lies outside of what the caller {}", text(o),
                               o.where == buffer::send ? "passes in" : "gets"));
    }

    const schedule& s_;
    const stake& mine_;
    std::vector<std::uint32_t> waits_;  // counted from the successor lists
};

}  // namespace

void check_form(std::span<const schedule> all, const contract& terms) {
    for (const schedule& s : all) form(s, terms.of(s.rank)).check();
}

}  // namespace terrace::detail::proof
