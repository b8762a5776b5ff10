#include "support/interleave.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "schedule/lane_code.hpp"
#include "support/dice.hpp"

namespace terrace::detail::test {

namespace {

// An element as an integer, whose sum is exact, and as a float, whose sum depends on the order of additions.
struct test_element {
    std::uint64_t exact = 0;
    float rounded = 0;

    // Factor in place of avg's division. Tests detect if it is missing, applied twice, or only applied to some terms.
    static constexpr std::uint64_t scale = 0x9e3779b97f4a7c15u;
    test_element scaled() const { return {exact * scale, rounded * 0x1.8p0f}; }

    friend test_element operator+(test_element a, test_element b) { return {a.exact + b.exact, a.rounded + b.rounded}; }
    friend bool operator==(test_element a, test_element b) {
        return a.exact == b.exact && std::bit_cast<std::uint32_t>(a.rounded) == std::bit_cast<std::uint32_t>(b.rounded);
    }
};
using elements = std::vector<test_element>;

test_element random_element(dice& d) { return {d.roll(), 1.0f + static_cast<float>(d.below(1 << 23)) * 0x1p-20f}; }

elements random_elements(dice& d, std::int64_t count) {
    elements result(static_cast<std::size_t>(count));
    for (test_element& e : result) e = random_element(d);
    return result;
}

// Next event of an instruction.
enum class stage_of_life : std::uint8_t { start, read, write, complete, over };

bool is_receive(action a) { return a == action::recv || a == action::recv_reduce; }

// A buffer of a rank, in places: indices of the vector, or of the caller's buffer of all blocks. The buffer has
// `elements` places from `first` on, and the call uses those in `parts`.
struct holding {
    std::int64_t first = 0, elements = 0;
    std::vector<range> parts;

    bool has(std::int64_t place) const {
        return std::any_of(parts.begin(), parts.end(), [&](range r) { return r.begin <= place && place < r.end; });
    }
};
struct terms {
    holding given, due;
    std::vector<range> exchanged = {};  // blocks of both buffers in an alltoall
};

terms terms_of(const schedule& s, const expectation& of) {
    holding all{0, 0, of.blocks};
    for (range b : of.blocks) all.elements = std::max(all.elements, b.end);
    if (s.what == collective::alltoall) return {all, all, of.blocks};
    if (!row_of(s.what).blocks) all = {0, s.count, {{0, s.count}}};
    terms made{all, all};
    if (row_of(s.what).blocks) {
        const range mine = of.blocks[static_cast<std::size_t>(s.rank)];
        (row_of(s.what).gives_own_block() ? made.given : made.due) = {mine.begin, mine.count(), {mine}};
    }
    if (row_of(s.what).gives_nothing(s.rank == of.root)) made.given = {};
    if (row_of(s.what).gets_nothing(s.rank == of.root)) made.due = {};
    return made;
}

}  // namespace

class interleaver::machine {
public:
    machine(std::span<const schedule> all, const expectation& of) : schedules_(all), scales_(of.marks_completion) {
        for (const schedule& s : all) terms_.push_back(terms_of(s, of));
        for (std::size_t r = 0; r < all.size(); ++r)
            for (std::size_t n = 0; n < all[r].instrs.size(); ++n)
                tasks_.emplace_back(r, &all[r].instrs[n], tasks_.size() - n);
        in_bounds_ = std::all_of(tasks_.begin(), tasks_.end(), [&](const task& t) { return inside(t); });
        if (!in_bounds_) return;
        lines_.resize(2 * all.size());
        for (std::size_t id = 0; id < tasks_.size(); ++id)
            if (is_message(id)) line_of(id).ids.push_back(id);
        pair_messages();
    }

    verdict run(std::uint64_t seed) {
        if (!in_bounds_) return verdict::out_of_bounds;
        dice_ = dice(seed);
        set_up();
        while (!ready_.empty()) step(take());
        for (const task& t : tasks_)
            if (t.next != stage_of_life::over) return verdict::stuck;
        return right() ? verdict::fine : verdict::wrong;
    }

private:
    static constexpr std::size_t nobody = ~std::size_t{0};

    struct task {
        task(std::size_t rank_, const instr* self_, std::size_t first_) : rank(rank_), self(self_), first(first_) {}

        std::size_t rank;
        const instr* self;
        std::size_t first;  // id of the rank's first instruction
        std::size_t partner = nobody;
        stage_of_life next = stage_of_life::start;
        std::int64_t waits = 0;
        bool offered = false;
        std::uint64_t priority = 0;
        elements value;  // elements that it has read
    };

    struct line {
        std::vector<std::size_t> ids;  // in program order
        std::size_t issued = 0, in_flight = 0, slots = 1;
    };

    const schedule& home(const task& t) const { return schedules_[t.rank]; }
    bool is_message(std::size_t id) const {
        return tasks_[id].self->what == action::send || is_receive(tasks_[id].self->what);
    }
    line& line_of(std::size_t id) { return lines_[2 * tasks_[id].rank + is_receive(tasks_[id].self->what)]; }

    // Messages between two ranks on one channel match in the order of their issue.
    void pair_messages() {
        std::map<std::tuple<std::size_t, std::size_t, int>, std::array<std::vector<std::size_t>, 2>> ways;
        for (std::size_t id = 0; id < tasks_.size(); ++id) {
            const task& t = tasks_[id];
            const auto peer = static_cast<std::size_t>(t.self->peer);
            if (t.self->what == action::send) ways[{t.rank, peer, t.self->channel}][0].push_back(id);
            if (is_receive(t.self->what)) ways[{peer, t.rank, t.self->channel}][1].push_back(id);
        }
        for (const auto& [way, ends] : ways)
            for (std::size_t n = 0; n < std::min(ends[0].size(), ends[1].size()); ++n) {
                tasks_[ends[0][n]].partner = ends[1][n];
                tasks_[ends[1][n]].partner = ends[0][n];
            }
    }

    // Returns whether an instruction stays in its buffers. An executor uses the destination's count of elements.
    bool inside(const task& t) const {
        const schedule& s = home(t);
        const std::array limits{terms_[t.rank].given.elements, terms_[t.rank].due.elements, s.scratch, s.wire};
        const auto fits = [&](buffer where, std::int64_t begin, std::int64_t count) {
            return where <= buffer::wire && begin >= 0 && count >= 0 &&
                   begin + count <= limits[static_cast<std::size_t>(where)];
        };
        const instr& i = *t.self;
        const std::int64_t count = (i.what == action::send ? i.src : i.dst).part.count();
        for (std::uint32_t after : s.successors_of(i))
            if (after >= s.instrs.size()) return false;
        if (i.what != action::send && !fits(i.dst.where, i.dst.part.begin, count)) return false;
        if (i.what == action::reduce) {
            const auto sources = s.sources_of(i);
            return !sources.empty() && std::all_of(sources.begin(), sources.end(), [&](const operand& o) {
                return fits(o.where, o.part.begin, count);
            });
        }
        if (i.what != action::recv && !fits(i.src.where, i.src.part.begin, count)) return false;
        return kind_of(i.what) == lane_code::kind::local ||
               (i.peer >= 0 && static_cast<std::size_t>(i.peer) < schedules_.size());
    }

    void set_up() {
        in_place_ = dice_.coin() && schedules_.front().what != collective::alltoall;
        eager_ = dice_.coin();
        // With more candidates that compete by priority, an instruction may be delayed longer.
        candidates_ = std::array{1, 2, 8}[dice_.below(3)];
        mismatched_ = false;
        memory_.clear();
        for (std::size_t r = 0; r < schedules_.size(); ++r) {
            const holding &given = terms_[r].given, &due = terms_[r].due;
            const auto end = [](const holding& h) { return h.first + h.elements; };
            // In place, one memory holds all places; else each buffer begins at its first place.
            std::array<elements, buffers>& mine = memory_.emplace_back();
            mine[0] = random_elements(dice_, in_place_ ? std::max(end(given), end(due)) : given.elements);
            if (!in_place_) mine[1] = random_elements(dice_, due.elements);
            mine[2] = random_elements(dice_, schedules_[r].scratch);
            mine[3] = random_elements(dice_, schedules_[r].wire);  // in elements before rounding
        }
        before_ = memory_;
        for (line& l : lines_) l = {.ids = std::move(l.ids), .issued = 0, .in_flight = 0, .slots = 1 + dice_.below(4)};
        ready_.clear();
        for (task& t : tasks_) {
            t.next = stage_of_life::start;
            t.waits = t.self->waits;
            t.offered = false;
            t.priority = dice_.roll();
        }
        for (std::size_t id = 0; id < tasks_.size(); ++id) offer(id);
    }

    std::size_t take() {
        std::size_t best = dice_.below(ready_.size());
        for (int c = 1; c < candidates_; ++c) {
            const std::size_t other = dice_.below(ready_.size());
            if (tasks_[ready_[other]].priority > tasks_[ready_[best]].priority) best = other;
        }
        const std::size_t id = std::exchange(ready_[best], ready_.back());
        ready_.pop_back();
        tasks_[id].offered = false;
        return id;
    }

    void offer(std::size_t id) {
        task& t = tasks_[id];
        if (t.offered || !possible(id)) return;
        t.offered = true;
        ready_.push_back(id);
    }

    bool possible(std::size_t id) {
        const task& t = tasks_[id];
        switch (t.next) {
            case stage_of_life::start: {
                if (t.waits != 0) return false;
                if (!is_message(id)) return true;
                const line& l = line_of(id);
                return l.issued < l.ids.size() && l.ids[l.issued] == id && l.in_flight < l.slots;
            }
            case stage_of_life::read:
                return t.self->what != action::send || eager_ ||
                       (t.partner != nobody && tasks_[t.partner].next > stage_of_life::start);
            case stage_of_life::write:
                return !is_receive(t.self->what) ||
                       (t.partner != nobody && tasks_[t.partner].next > stage_of_life::read);
            case stage_of_life::complete: return true;
            case stage_of_life::over: return false;
        }
        return false;
    }

    // Runs the next event of an instruction, and offers the events that it makes possible.
    void step(std::size_t id) {
        task& t = tasks_[id];
        switch (t.next) {
            case stage_of_life::start:
                if (is_message(id)) start_message(id);
                break;
            case stage_of_life::read: read(t); break;
            case stage_of_life::write: write(t); break;
            default: complete(id); break;
        }
        t.next = static_cast<stage_of_life>(static_cast<int>(t.next) + 1);
        offer(id);
        if (t.partner != nobody) offer(t.partner);
    }

    void start_message(std::size_t id) {
        line& l = line_of(id);
        ++l.issued;
        ++l.in_flight;
        if (l.issued < l.ids.size()) offer(l.ids[l.issued]);
    }

    void complete(std::size_t id) {
        const task& t = tasks_[id];
        for (std::uint32_t after : home(t).successors_of(*t.self)) {
            --tasks_[t.first + after].waits;
            offer(t.first + after);
        }
        if (!is_message(id)) return;
        line& l = line_of(id);
        --l.in_flight;
        if (l.issued < l.ids.size()) offer(l.ids[l.issued]);
    }

    test_element* memory(const task& t, const operand& o) { return at(memory_, t.rank, o.where, o.part.begin); }

    // Returns the address of element i of a rank's buffer; i may be one past the end.
    test_element* at(std::vector<std::array<elements, buffers>>& all, std::size_t rank, buffer where,
                     std::int64_t i) const {
        const bool shared = in_place_ && (where == buffer::send || where == buffer::recv);
        if (shared) i += where == buffer::send ? terms_[rank].given.first : terms_[rank].due.first;
        return all[rank][shared ? 0 : static_cast<std::size_t>(where)].data() + i;
    }

    void read(task& t) {
        const instr& i = *t.self;
        if (i.what == action::recv) return;
        const auto count = static_cast<std::size_t>((i.what == action::send ? i.src : i.dst).part.count());
        if (i.what != action::reduce) {
            const test_element* from = memory(t, i.src);
            t.value.assign(from, from + count);
            return;
        }
        const auto sources = home(t).sources_of(i);
        t.value.resize(count);
        for (std::size_t e = 0; e < count; ++e) {
            std::uint64_t exact = 0;
            double sum = 0;
            for (const operand& o : sources) {
                exact += memory(t, o)[e].exact;
                sum += memory(t, o)[e].rounded;
            }
            t.value[e] = {exact, static_cast<float>(sum)};
            if (i.completes) t.value[e] = t.value[e].scaled();
        }
    }

    void write(task& t) {
        const instr& i = *t.self;
        if (i.what == action::send) return;
        const auto count = static_cast<std::size_t>(i.dst.part.count());
        const elements& arrived = is_receive(i.what) ? tasks_[t.partner].value : t.value;
        if (arrived.size() != count) {
            mismatched_ = true;
            return;
        }
        test_element* to = memory(t, i.dst);
        for (std::size_t e = 0; e < count; ++e) {
            if (i.what != action::recv_reduce) to[e] = arrived[e];
            else to[e] = i.completes ? (t.value[e] + arrived[e]).scaled() : t.value[e] + arrived[e];
        }
    }

    bool right() {
        if (mismatched_) return false;
        std::map<std::int64_t, test_element> results;  // by place: result of the first rank that gets it
        for (std::size_t r = 0; r < memory_.size(); ++r) {
            const auto& [given, due, exchanged] = terms_[r];
            if (!exchanged.empty() && !exchanged_right(r)) return false;
            for (std::int64_t i = 0; i < due.elements; ++i) {
                const std::int64_t place = due.first + i;
                const test_element& actual = *at(memory_, r, buffer::recv, i);
                if (!due.has(place)) {
                    if (actual != *at(before_, r, buffer::recv, i)) return false;
                } else if (exchanged.empty() &&
                           (!right(place, actual) || results.emplace(place, actual).first->second != actual)) {
                    return false;
                }
            }
            for (std::int64_t i = 0; i < given.elements; ++i)
                if (!(in_place_ && due.has(given.first + i)) &&
                    *at(memory_, r, buffer::send, i) != *at(before_, r, buffer::send, i))
                    return false;
        }
        return true;
    }

    // Returns whether block s of a rank's result is the block that rank s gave for this rank.
    bool exchanged_right(std::size_t r) {
        const std::vector<range>& blocks = terms_[r].exchanged;
        for (std::size_t s = 0; s < blocks.size(); ++s)
            for (std::int64_t i = 0; i < blocks[s].count(); ++i)
                if (*at(memory_, r, buffer::recv, blocks[s].begin + i) !=
                    *at(before_, s, buffer::send, blocks[r].begin + i))
                    return false;
        return true;
    }

    // Returns whether a result is the sum of all inputs at its place, scaled once if `scales_`, or a copy of one input.
    bool right(std::int64_t place, const test_element& actual) {
        const bool adds = row_of(schedules_[0].what).up;
        std::uint64_t sum = 0;
        for (std::size_t r = 0; r < before_.size(); ++r) {
            const holding& given = terms_[r].given;
            if (!given.has(place)) continue;
            const test_element& passed = *at(before_, r, buffer::send, place - given.first);
            if (!adds) return actual == passed;
            sum += passed.exact;
        }
        return actual.exact == (schedules_.size() > 1 && scales_ ? sum * test_element::scale : sum);
    }

    std::span<const schedule> schedules_;
    bool scales_;               // schedules mark reductions that complete a sum, which scale it
    std::vector<terms> terms_;  // by rank
    std::vector<task> tasks_;
    std::vector<line> lines_;  // [2 * rank + receives]
    bool in_bounds_ = false;

    dice dice_{0};
    bool in_place_ = false, eager_ = false, mismatched_ = false;
    int candidates_ = 1;
    std::vector<std::size_t> ready_;
    std::vector<std::array<elements, buffers>> memory_, before_;  // [rank][buffer]
};

interleaver::interleaver(std::span<const schedule> schedules, const expectation& of)
    : machine_(std::make_unique<machine>(schedules, of)) {}
interleaver::~interleaver() = default;

verdict interleaver::run(std::uint64_t seed) { return machine_->run(seed); }

verdict judge(std::span<const schedule> schedules, int runs, std::uint64_t seed, const expectation& of) {
    interleaver all(schedules, of);
    for (int n = 0; n < runs; ++n)
        if (const verdict v = all.run(seed + static_cast<std::uint64_t>(n)); v != verdict::fine) return v;
    return verdict::fine;
}

}  // namespace terrace::detail::test
