#include <array>
#include <string>

#include <fmt/format.h>

#include "schedule/interval_map.hpp"
#include "schedule/verify/expressions.hpp"
#include "schedule/verify/proof.hpp"
#include "schedule/verify/stages.hpp"

namespace terrace::detail::proof {

namespace {

// Executes the schedules on expressions. Without races, every order that respects the waits gives the same result. Only
// in place shows a read of `send` after it was overwritten, and only out of place a read of `recv` before it was
// written.
class execution {
public:
    execution(const network& net, const contract& terms, const stages& with, const buffer_case& now, expressions& sums)
        : net_(net),
          terms_(terms),
          stages_(with),
          sums_(sums),
          in_place_(now.in_place),
          memory_(net.schedules().size()) {
        for (const schedule& s : net.schedules())
            for (range given : terms.of(s.rank).given)
                buffer_of(s.rank, buffer::send).update(given, [&](cell& c) {
                    c = {expressions::input(s.rank), 0, false};
                });
    }

    void run(std::span<const event> order) {
        for (const auto [id, round] : order) {
            const instr& i = net_.instruction(id);
            if (is_stage(i.what)) run_round(id, round);
            else if (i.what == action::send) arrive(net_.partner(id), read(id, i.src));
            else if (i.what == action::copy || i.what == action::decode) write(id, read(id, i.src));
            else if (i.what == action::encode) write(id, rounded(id));
            else add(id, read_sources(id));
        }
    }

    void check_result() {
        if (net_.schedules()[0].what == collective::alltoall) return check_origins();
        if (!terms_.adds())
            for (const schedule& s : net_.schedules())
                for (range given : terms_.of(s.rank).given)
                    agreed_.update(given, [&](answer& a) { a = {expressions::input(s.rank), s.rank}; });
        for (const schedule& s : net_.schedules())
            for (range due : terms_.of(s.rank).due)
                buffer_of(s.rank, buffer::recv).visit(due, [&](range part, const cell& mine) {
                    agreed_.visit(part, [&](range common, answer& agreed) { check(s.rank, common, mine, agreed); });
                });
    }

private:
    struct cell {
        int value = -1;
        std::int64_t shift = 0;  // origin minus place
        bool finished = false;
    };
    struct answer {
        int value = -1;
        int rank = -1;  // first rank that has the element; -1: none
    };

    [[noreturn]] void refuse_result(int rank, range part, const std::string& what) const {
        const std::int64_t first = terms_.of(rank).recv_at;
        throw fault{fmt::format("rank {}: {} in {}, {}", rank, what,
                                text({buffer::recv, {part.begin - first, part.end - first}}),
                                in_place_[at(rank)] ? "in place" : "out of place")};
    }

    // Checks that each block is the one that its source rank passed in for this rank, element by element.
    void check_origins() {
        for (const schedule& s : net_.schedules())
            for (const contract::origin& from : terms_.origins_of(s.rank))
                buffer_of(s.rank, buffer::recv).visit(from.due, [&](range part, const cell& mine) {
                    if (mine.value < 0) refuse_result(s.rank, part, "nothing is written");
                    if (mine.value != expressions::input(from.rank))
                        refuse_result(s.rank, part, fmt::format("not what rank {} passed in arrives", from.rank));
                    if (mine.shift != from.place - from.due.begin)
                        refuse_result(s.rank, part, "elements of another place arrive");
                });
    }

    // Checks one part of one rank's result, with equal histories on this rank and on the ranks before.
    void check(int rank, range part, const cell& mine, answer& agreed) {
        const auto wrong = [&](const std::string& what) { refuse_result(rank, part, what); };
        if (mine.value < 0) wrong("nothing is written");
        if (mine.shift != 0) wrong("elements of another place arrive");
        if (terms_.adds() && !sums_.complete(mine.value)) wrong("contributions are missing");
        if (terms_.adds() && terms_.marks_completion() && !mine.finished && net_.schedules().size() > 1)
            wrong("no reduction completed the sum");
        if (terms_.adds() && !sums_.by_tree(mine.value)) wrong("the additions are not those of the tree");
        if (agreed.rank < 0) agreed = {mine.value, rank};
        if (mine.value != agreed.value)
            wrong(terms_.adds() ? fmt::format("the order of additions differs from rank {}'s", agreed.rank)
                                : fmt::format("something else than rank {} passed in arrives", agreed.rank));
    }

    interval_map<cell>& buffer_of(int rank, buffer where) {
        if (in_place_[at(rank)] && where == buffer::send) where = buffer::recv;
        return memory_[at(rank)][static_cast<std::size_t>(where)];
    }

    pieces read(std::size_t id, const operand& o) { return read_of(id, net_.rank(id), o); }

    // Returns the values that an instruction reads in the memory of its own rank or a peer.
    pieces read_of(std::size_t id, int owner, const operand& o) {
        pieces values;
        const range place = terms_.of(owner).place(o);
        buffer_of(owner, o.where).visit(place, [&](range part, const cell& c) {
            if (c.value < 0)
                net_.refuse(id, fmt::format("reads {}{}, but not all of it has been written", text(o),
                                            owner == net_.rank(id) ? "" : fmt::format(" of rank {}", owner)));
            values.push_back(
                {{part.begin - place.begin, part.end - place.begin}, c.value, part.begin + c.shift, c.finished});
        });
        return values;
    }

    void run_round(std::size_t id, int round) {
        const stage_instance& s = stages_.instance(stages_.number_of(id));
        const stage_step now = stages_.step(id, round);
        const auto rank_of = [&](const stage_part& p) { return net_.rank(s.ids[at(p.owner)]); };
        std::vector<pieces> values;
        for (const stage_part& p : now.reads) {
            const bool own = now.adds && p.owner == stages_.position_of(id);
            values.push_back(read_of(id, rank_of(p), stages_.operand_of(s, p, own)));
        }
        if (values.empty()) return;
        const pieces sum = now.adds ? sum_of(id, values) : pieces{};
        for (std::size_t k = 0; k < now.writes.size(); ++k)
            write_to(rank_of(now.writes[k]), stages_.operand_of(s, now.writes[k], false), now.adds ? sum : values[k]);
    }

    std::vector<pieces> read_sources(std::size_t id) {
        std::vector<pieces> terms;
        for (const operand& o : net_.home(id).sources_of(net_.instruction(id))) terms.push_back(read(id, o));
        return terms;
    }

    // Returns the rounded values of an instruction's source: data that are encoded together are rounded together.
    pieces rounded(std::size_t id) {
        const instr& i = net_.instruction(id);
        pieces values = read(id, i.src);
        const std::int64_t first = values.empty() ? 0 : values.front().origin;
        for (piece& p : values) p.value = sums_.rounded(p.value, i.wire, first, i.src.part.count());
        return values;
    }

    void arrive(std::size_t id, pieces message) {
        const instr& i = net_.instruction(id);
        if (i.what == action::recv) write(id, message);
        else add(id, std::array{read(id, i.src), std::move(message)});
    }

    void add(std::size_t id, std::span<const pieces> terms) { write(id, sum_of(id, terms)); }

    pieces sum_of(std::size_t id, std::span<const pieces> terms) {
        const bool completes = net_.instruction(id).completes;
        pieces sum;
        std::vector<int> values(terms.size());
        for_each_column(terms, [&](range part, const pieces& column) {
            for (std::size_t t = 0; t < column.size(); ++t) {
                if (column[t].origin != column[0].origin)
                    net_.refuse(id, fmt::format("adds element {} to element {}", column[t].origin, column[0].origin));
                values[t] = column[t].value;
            }
            const int value = values.size() == 1 ? values[0] : sums_.sum(values);
            if (value < 0) net_.refuse(id, "counts a rank's contribution twice");
            // Nothing can be added to a complete sum, so each sum is completed once.
            if (completes && !sums_.complete(value)) net_.refuse(id, "completes a sum that lacks contributions");
            sum.push_back({part, value, column[0].origin, completes});
        });
        return sum;
    }

    void write(std::size_t id, const pieces& values) { write_to(net_.rank(id), net_.instruction(id).dst, values); }

    void write_to(int rank, const operand& dst, const pieces& values) {
        const range place = terms_.of(rank).place(dst);
        for (const piece& p : values) {
            const range part{place.begin + p.part.begin, place.begin + p.part.end};
            buffer_of(rank, dst.where).update(part, [&](cell& c) { c = {p.value, p.origin - part.begin, p.finished}; });
        }
    }

    const network& net_;
    const contract& terms_;
    const stages& stages_;
    expressions& sums_;
    std::vector<bool> in_place_;                                   // by rank
    std::vector<std::array<interval_map<cell>, buffers>> memory_;  // by rank and buffer; send and recv by place
    interval_map<answer> agreed_;                                  // by place
};

}  // namespace

void check_result(const network& net, const contract& terms, const stages& with, const buffer_case& now,
                  std::span<const event> order, expressions& sums) {
    execution run(net, terms, with, now, sums);
    run.run(order);
    run.check_result();
}

}  // namespace terrace::detail::proof
