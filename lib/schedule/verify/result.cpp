#include <algorithm>
#include <array>
#include <bit>
#include <map>
#include <string>

#include <fmt/format.h>

#include "schedule/interval_map.hpp"
#include "schedule/verify/proof.hpp"

namespace terrace::detail::proof {

namespace {

// Sums as they are computed. Equal expressions have equal numbers; two operands may change places, as in IEEE addition.
class expressions {
public:
    explicit expressions(int ranks) : ranks_(ranks), words_((at(ranks) + 63) / 64) {
        contributors_.resize(at(ranks) * words_, 0);
        for (int r = 0; r < ranks; ++r) set(r)[at(r) / 64] |= std::uint64_t{1} << r % 64;
    }

    // What a rank passed in.
    static int input(int rank) { return rank; }

    // Negative if a rank contributes to two of the terms.
    int sum(std::vector<int> terms) {
        if (terms.size() == 2 && terms[0] > terms[1]) std::swap(terms[0], terms[1]);
        const auto known = numbers_.find(terms);
        if (known != numbers_.end()) return known->second;
        std::vector<std::uint64_t> all(words_, 0);
        for (int term : terms)
            for (std::size_t w = 0; w < words_; ++w) {
                if (all[w] & set(term)[w]) return -1;
                all[w] |= set(term)[w];
            }
        const int number = static_cast<int>(contributors_.size() / words_);
        contributors_.insert(contributors_.end(), all.begin(), all.end());
        numbers_.emplace(std::move(terms), number);
        return number;
    }

    bool complete(int number) {
        int count = 0;
        for (std::size_t w = 0; w < words_; ++w) count += std::popcount(set(number)[w]);
        return count == ranks_;
    }

private:
    std::uint64_t* set(int number) { return contributors_.data() + at(number) * words_; }

    int ranks_;
    std::size_t words_;
    std::vector<std::uint64_t> contributors_;  // a bit set per expression
    std::map<std::vector<int>, int> numbers_;
};

// Some elements of equal history, counted from the beginning of the operand they are part of.
struct piece {
    range part;
    int value = -1;           // an expression; -1: nothing has been written here
    std::int64_t origin = 0;  // the place where the caller passed the first of them in
    bool finished = false;    // a reduction that completes wrote it: avg has divided it
};
using pieces = std::vector<piece>;

// Calls f(range, column) for the common refinement of the rows; column[i] is row i's piece there, cut to the range.
template <class F>
void for_each_column(std::span<const pieces> rows, F&& f) {
    std::vector<std::size_t> next(rows.size(), 0);
    pieces column(rows.size());
    for (std::int64_t begin = 0; next[0] < rows[0].size();) {
        std::int64_t end = rows[0][next[0]].part.end;
        for (std::size_t r = 1; r < rows.size(); ++r) end = std::min(end, rows[r][next[r]].part.end);
        for (std::size_t r = 0; r < rows.size(); ++r) {
            const piece& p = rows[r][next[r]];
            column[r] = {{begin, end}, p.value, p.origin + begin - p.part.begin, p.finished};
            if (p.part.end == end) ++next[r];
        }
        f(range{begin, end}, column);
        begin = end;
    }
}

// Executes the schedules on expressions. Since nothing races, every order that respects the waits gives the same
// result. In place and out of place differ: only the one shows a read of `send` after it was overwritten, only the
// other a read of `recv` before it was written.
class execution {
public:
    execution(const network& net, const contract& terms, expressions& sums, bool in_place)
        : net_(net), terms_(terms), sums_(sums), in_place_(in_place), memory_(net.schedules().size()) {
        for (const schedule& s : net.schedules())
            for (range given : terms.of(s.rank).given)
                buffer_of(s.rank, buffer::send).update(given, [&](cell& c) {
                    c = {expressions::input(s.rank), 0, false};
                });
    }

    void run(std::span<const std::size_t> order) {
        for (std::size_t id : order) {
            const instr& i = net_.instruction(id);
            if (i.what == action::send) arrive(net_.partner(id), read(id, i.src));
            else if (i.what == action::copy) write(id, read(id, i.src));
            else add(id, read_sources(id));
        }
    }

    void check_result() {
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
        int rank = -1;  // the first to have it; -1: nobody yet
    };

    // One part of one rank's result, of equal history and of equal history on the ranks before it.
    void check(int rank, range part, const cell& mine, answer& agreed) {
        const auto wrong = [&](const std::string& what) {
            const std::int64_t first = terms_.of(rank).recv_at;
            throw fault{fmt::format("rank {}: {} in {}, {}", rank, what,
                                    text({buffer::recv, {part.begin - first, part.end - first}}),
                                    in_place_ ? "in place" : "out of place")};
        };
        if (mine.value < 0) wrong("nothing is written");
        if (mine.shift != 0) wrong("elements of another place arrive");
        if (terms_.adds() && !sums_.complete(mine.value)) wrong("contributions are missing");
        if (terms_.adds() && !mine.finished && net_.schedules().size() > 1) wrong("no reduction completed the sum");
        if (agreed.rank < 0) agreed = {mine.value, rank};
        if (mine.value != agreed.value)
            wrong(terms_.adds() ? fmt::format("the order of additions differs from rank {}'s", agreed.rank)
                                : fmt::format("something else than rank {} passed in arrives", agreed.rank));
    }

    interval_map<cell>& buffer_of(int rank, buffer where) {
        if (in_place_ && where == buffer::send) where = buffer::recv;
        return memory_[at(rank)][static_cast<std::size_t>(where)];
    }

    pieces look(int rank, const operand& o) {
        pieces result;
        const range place = terms_.of(rank).place(o);
        buffer_of(rank, o.where).visit(place, [&](range part, const cell& c) {
            result.push_back(
                {{part.begin - place.begin, part.end - place.begin}, c.value, part.begin + c.shift, c.finished});
        });
        return result;
    }

    pieces read(std::size_t id, const operand& o) {
        pieces values = look(net_.rank(id), o);
        for (const piece& p : values)
            if (p.value < 0) net_.refuse(id, fmt::format("reads {}, but not all of it has been written", text(o)));
        return values;
    }

    std::vector<pieces> read_sources(std::size_t id) {
        std::vector<pieces> terms;
        for (const operand& o : net_.home(id).sources_of(net_.instruction(id))) terms.push_back(read(id, o));
        return terms;
    }

    void arrive(std::size_t id, pieces message) {
        const instr& i = net_.instruction(id);
        if (i.what == action::recv) write(id, message);
        else add(id, std::array{read(id, i.src), std::move(message)});
    }

    void add(std::size_t id, std::span<const pieces> terms) {
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
            // Nothing can be added to a complete sum, so that it is completed once.
            if (completes && !sums_.complete(value)) net_.refuse(id, "completes a sum that lacks contributions");
            sum.push_back({part, value, column[0].origin, completes});
        });
        write(id, sum);
    }

    void write(std::size_t id, const pieces& values) {
        const operand& dst = net_.instruction(id).dst;
        const range place = terms_.of(net_.rank(id)).place(dst);
        for (const piece& p : values) {
            const range part{place.begin + p.part.begin, place.begin + p.part.end};
            buffer_of(net_.rank(id), dst.where).update(part, [&](cell& c) {
                c = {p.value, p.origin - part.begin, p.finished};
            });
        }
    }

    const network& net_;
    const contract& terms_;
    expressions& sums_;
    bool in_place_;
    std::vector<std::array<interval_map<cell>, 3>> memory_;  // by rank and buffer; the caller's by place
    interval_map<answer> agreed_;                            // by place
};

}  // namespace

void check_result(const network& net, const contract& terms, std::span<const std::size_t> order) {
    expressions sums(static_cast<int>(net.schedules().size()));
    for (bool in_place : {false, true}) {
        execution run(net, terms, sums, in_place);
        run.run(order);
        run.check_result();
    }
}

}  // namespace terrace::detail::proof
