#include "schedule/group_messages.hpp"

#include <algorithm>
#include <cmath>

#include "base/partition.hpp"
#include "schedule/lower.hpp"

namespace terrace::detail {

namespace {

class program_reader {
public:
    // @param joins true: all data to one peer in a step are one message
    program_reader(const group& g, const group_programs& programs, bool joins)
        : of_(group(group::numbered(g.size()).members(), g.shards(), g.root()).with_nodes(g.nodes())),
          programs_(programs),
          joins_(joins),
          folds_(has_equal_shards(g)),
          whole_(static_cast<double>(g.whole().count())),
          out_(0, g.size(), collective::allreduce, 0) {
        made_.reduced.resize(at(g.size()));
    }

    void read(int position) {
        if (made_.provider_action) return;
        write(position, programs_.write);
        if (!out_.counted().empty() && is_stage(out_.counted().front().what)) {
            const instr& stage = out_.counted().front();
            if (stage.by != provider::mpi) return void(made_.provider_action = stage.what);
            write(position, expansion(stage.what));  // as messages
        }
        for (std::size_t n = 0; n < out_.counted().size(); ++n) add(position, out_.counted()[n], out_.times_of(n));
    }

    group_moves take() {
        std::vector<group_message>& all = made_.messages;
        if (!std::ranges::is_sorted(all, {}, &group_message::step))
            std::ranges::stable_sort(all, {}, &group_message::step);
        int steps = 0;
        for (std::size_t i = 0; i < all.size(); ++i)
            if (i == 0 || all[i].step != all[i - 1].step) steps += all[i].times;
        if (programs_.startups < steps) {
            made_.startups = programs_.startups;
            for (group_message& m : all) m.step = 0;
        }
        return std::move(made_);
    }

private:
    template <class Write>
    void write(int position, Write&& program) {
        stage_role role;
        if (programs_.root_adds) role.adds = {of_.root(), false};
        out_.begin_counted(position, folds_);
        out_.begin_role(role);
        program(out_, of_.seen_from(position));
    }

    void add(int position, const instr& i, int times) {
        const auto part = [&](const operand& o) { return static_cast<double>(o.part.count()) / whole_; };
        double& reduced = made_.reduced[at(position)];
        if (i.what == action::recv_reduce) reduced += times * part(i.dst);
        if (i.what == action::reduce) reduced += times * part(i.dst) * (i.sources + 1) / 3;  // reads all, writes one
        if (i.what != action::send) return;
        std::vector<group_message>& all = made_.messages;
        const bool joined = joins_ && !all.empty() && all.back().step == i.step && all.back().to == i.peer;
        if (joined) all.back().part += part(i.src);
        else all.push_back({i.step, times, position, i.peer, part(i.src)});
    }

    group of_;
    const group_programs& programs_;
    bool joins_, folds_;
    double whole_;
    builder out_;
    group_moves made_;
};

// Returns the messages and reductions of one position, as if it were the first.
group_moves turned(const group& g, const group_programs& programs, int position) {
    program_reader one(g, programs, true);
    one.read(position);
    group_moves made = one.take();
    made.reduced = {made.reduced[at(position)]};
    made.circulant = true;
    for (group_message& m : made.messages) m.to = wrap(m.to - m.from, g.size()), m.from = 0;
    return made;
}

bool are_alike(const group_moves& a, const group_moves& b) {
    const auto near = [](double x, double y) { return std::abs(x - y) < 1e-9; };
    const auto same = [&](const group_message& x, const group_message& y) {
        return x.step == y.step && x.times == y.times && x.to == y.to && near(x.part, y.part);
    };
    return std::ranges::equal(a.messages, b.messages, same) && near(a.reduced.front(), b.reduced.front());
}

}  // namespace

bool has_equal_shards(const group& g) {
    constexpr std::int64_t coarse = 1 << 20;  // shards of a longer whole may differ by one element
    const auto [least, most] = std::ranges::minmax(g.shards(), {}, &range::count);
    return most.count() - least.count() <= (g.whole().count() <= coarse ? 0 : 1);
}

group_moves read_programs(const group& g, const group_programs& programs, int large) {
    if (g.size() > large && has_equal_shards(g)) {
        group_moves first = turned(g, programs, 0);
        if (first.provider_action) first.reduced.resize(at(g.size())), first.circulant = false;
        const auto is_like_first = [&](int position) { return are_alike(first, turned(g, programs, position)); };
        if (first.provider_action || (is_like_first(1) && is_like_first(g.size() / 2))) return first;
    }
    program_reader all(g, programs, g.size() > large);
    for (int position = 0; position < g.size(); ++position) all.read(position);
    return all.take();
}

}  // namespace terrace::detail
