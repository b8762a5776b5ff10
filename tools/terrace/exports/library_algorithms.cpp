// What Open MPI's component `tuned` sends, by its monitoring component (tests/exports/openmpi_messages_test.py); MPICH
// and Intel MPI have algorithms of the same names.

#include "tools/terrace/exports/library_algorithms.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>

#include "base/index.hpp"
#include "planner/simulate/links.hpp"

namespace terrace::detail {

namespace {

using steps = std::vector<library_step>;

int power_within(int ranks) { return static_cast<int>(std::bit_floor(static_cast<unsigned>(ranks))); }

// p ranks, 2^k of which take part, with 2^k <= p < 2^(k+1): the first p - 2^k pairs of ranks act as one.
struct folded {
    int ranks, power = power_within(ranks), extra = ranks - power;

    // Returns the rank that acts for a participant.
    int rank(int participant, bool odd) const {
        return participant < extra ? 2 * participant + odd : participant + extra;
    }
    library_step between_pairs(double bytes, bool to_odd, bool added) const {
        library_step made;
        for (int i = 0; i < extra; ++i) made.messages.push_back({2 * i + !to_odd, 2 * i + to_odd, bytes, added});
        return made;
    }
};

void add(steps& to, library_step step) {
    if (!step.messages.empty()) to.push_back(std::move(step));
}

// Everybody to the next one, `times` times.
steps around(int ranks, double bytes, bool added, int times) {
    library_step step{.times = times};
    for (int r = 0; r < ranks; ++r) step.messages.push_back({r, (r + 1) % ranks, bytes, added});
    return {step};
}

steps joined(steps first, const steps& second) {
    first.insert(first.end(), second.begin(), second.end());
    return first;
}

steps recursive_doubling(int ranks, double bytes) {
    const folded f{ranks};
    steps made;
    add(made, f.between_pairs(bytes, true, true));
    for (int distance = 1; distance < f.power; distance *= 2) {
        library_step step;
        for (int i = 0; i < f.power; ++i)
            step.messages.push_back({f.rank(i, true), f.rank(i ^ distance, true), bytes, true});
        add(made, step);
    }
    add(made, f.between_pairs(bytes, false, false));
    return made;
}

// Halves of halves, near partners first.
steps halving(const folded& f, bool odd, double bytes) {
    steps made;
    for (int distance = 1; distance < f.power; distance *= 2) {
        library_step step;
        for (int i = 0; i < f.power; ++i)
            step.messages.push_back({f.rank(i, odd), f.rank(i ^ distance, odd), bytes / (2 * distance), true});
        add(made, step);
    }
    return made;
}

// Halves of halves up and back.
steps halving_and_back(const folded& f, bool odd, double bytes) {
    const steps there = halving(f, odd, bytes);
    steps back(there.rbegin(), there.rend());
    for (library_step& step : back)
        for (library_message& m : step.messages) m.added = false;
    return joined(there, back);
}

steps rabenseifner(int ranks, double bytes) {
    const folded f{ranks};
    steps made;
    library_step halves = f.between_pairs(bytes / 2, true, true);
    for (const library_message& m : f.between_pairs(bytes / 2, false, true).messages) halves.messages.push_back(m);
    add(made, halves);
    add(made, f.between_pairs(bytes / 2, false, false));
    made = joined(made, halving_and_back(f, false, bytes));
    add(made, f.between_pairs(bytes, true, false));
    return made;
}

steps ring_allreduce(int ranks, double bytes) {
    return joined(around(ranks, bytes / ranks, true, ranks - 1), around(ranks, bytes / ranks, false, ranks - 1));
}

// The tree in which a rank's parent lacks its highest bit.
steps binomial_broadcast(int ranks, double bytes) {
    steps made;
    for (int distance = 1; distance < ranks; distance *= 2) {
        library_step step;
        for (int r = 0; r < distance && r + distance < ranks; ++r) step.messages.push_back({r, r + distance, bytes});
        add(made, step);
    }
    return made;
}

// The tree in which a rank's parent lacks its last digit, of those to this base that are not 0: subtrees are runs of
// ranks.
template <class Bytes>
steps from_root(int ranks, int base, Bytes bytes_of) {
    int distance = 1;
    while (distance * base < ranks) distance *= base;
    steps made;
    for (; distance > 0; distance /= base) {
        library_step step;
        for (int r = distance; r < ranks; r += distance)
            if (const int last = r % (base * distance); last > 0)
                step.messages.push_back({r - last, r, bytes_of(std::min(distance, ranks - r))});
        add(made, step);
    }
    return made;
}

template <int base>
steps digits_broadcast(int ranks, double bytes) {
    return from_root(ranks, base, [&](int) { return bytes; });
}

steps linear_broadcast(int ranks, double bytes) {
    return from_root(ranks, ranks, [&](int) { return bytes; });
}

// The tree of two children each that is filled level by level.
steps binary_broadcast(int ranks, double bytes) {
    steps made;
    for (int level = 1; level <= ranks; level *= 2) {  // ranks on it, and before it but for one
        library_step step;
        for (int r = level - 1; r < std::min(2 * level - 1, ranks); ++r)
            for (const int child : {r + level, r + 2 * level})
                if (child < ranks) step.messages.push_back({r, child, bytes});
        add(made, step);
    }
    return made;
}

steps chain_broadcast(int ranks, double bytes) {
    steps made;
    for (int r = 0; r + 1 < ranks; ++r) made.push_back({{{r, r + 1, bytes}}});
    return made;
}

// The reduction by the messages of a broadcast.
steps back_and_added(steps broadcast) {
    std::ranges::reverse(broadcast);
    for (library_step& step : broadcast)
        for (library_message& m : step.messages) m = {m.to, m.from, m.bytes, true};
    return broadcast;
}

template <auto broadcast>
steps reduce_along(int ranks, double bytes) {
    return back_and_added(broadcast(ranks, bytes));
}

steps ring_allgather(int ranks, double bytes) { return around(ranks, bytes / ranks, false, ranks - 1); }

steps binomial_scatter(int ranks, double bytes) {
    return from_root(ranks, 2, [&](int blocks) { return blocks * bytes / ranks; });
}

steps scatter_allgather(int ranks, double bytes) {
    return joined(binomial_scatter(ranks, bytes), ring_allgather(ranks, bytes));
}

steps bruck_allgather(int ranks, double bytes) {
    steps made;
    for (int distance = 1; distance < ranks; distance *= 2) {
        library_step step;
        for (int r = 0; r < ranks; ++r)
            step.messages.push_back(
                {r, (r - distance + ranks) % ranks, std::min(distance, ranks - distance) * bytes / ranks});
        add(made, step);
    }
    return made;
}

steps doubling_allgather(int ranks, double bytes) {
    if (power_within(ranks) != ranks) return {};
    steps made;
    for (int distance = 1; distance < ranks; distance *= 2) {
        library_step step;
        for (int r = 0; r < ranks; ++r) step.messages.push_back({r, r ^ distance, distance * bytes / ranks});
        add(made, step);
    }
    return made;
}

constexpr std::int64_t kib = 1024;

// What MPICH chooses by itself.
steps mpich_allreduce(int ranks, double bytes) {
    const folded f{ranks};
    steps made;
    add(made, f.between_pairs(bytes, true, true));
    made = joined(made, halving_and_back(f, true, bytes));
    add(made, f.between_pairs(bytes, false, false));
    return made;
}

steps mpich_broadcast(int ranks, double bytes) {
    if (ranks < 8 || bytes <= 12 * kib) return digits_broadcast<2>(ranks, bytes);
    if (power_within(ranks) != ranks || bytes > 512 * kib) return scatter_allgather(ranks, bytes);
    return joined(binomial_scatter(ranks, bytes), doubling_allgather(ranks, bytes));
}

steps mpich_reduce(int ranks, double bytes) {
    if (bytes <= 2 * kib) return reduce_along<digits_broadcast<2>>(ranks, bytes);
    const folded f{ranks};
    steps made;
    add(made, f.between_pairs(bytes, false, true));
    made = joined(made, halving(f, false, bytes));
    for (int distance = f.power / 2; distance > 0; distance /= 2) {
        library_step step;
        for (int i = distance; i < 2 * distance; ++i)
            step.messages.push_back({f.rank(i, false), f.rank(i - distance, false), bytes / (2 * distance)});
        add(made, step);
    }
    return made;
}

constexpr std::array algorithms_of_libraries{
    library_algorithm{"recursive doubling", collective::allreduce, recursive_doubling, 0, 3, 1},
    library_algorithm{"Rabenseifner", collective::allreduce, rabenseifner, 0, 6, 2},
    library_algorithm{"ring", collective::allreduce, ring_allreduce, 0, 4, 8},
    library_algorithm{"linear", collective::broadcast, linear_broadcast, 0, 1},
    library_algorithm{"binary", collective::broadcast, binary_broadcast, 0, 5},
    library_algorithm{"4-nomial", collective::broadcast, digits_broadcast<4>, 0, 7},
    library_algorithm{"binomial", collective::broadcast, binomial_broadcast, 0, 6, 1},
    library_algorithm{"scatter and ring", collective::broadcast, scatter_allgather, 0, 9, 3},
    library_algorithm{"pipeline of 16 KiB", collective::broadcast, chain_broadcast, 16 * kib, 3},
    library_algorithm{"pipeline of 64 KiB", collective::broadcast, chain_broadcast, 64 * kib, 3},
    library_algorithm{"linear", collective::reduce, reduce_along<linear_broadcast>, 0, 1},
    library_algorithm{"binary", collective::reduce, reduce_along<binary_broadcast>, 0, 4},
    library_algorithm{"binomial", collective::reduce, reduce_along<digits_broadcast<2>>, 0, 5, 2},
    library_algorithm{"pipeline of 16 KiB", collective::reduce, reduce_along<chain_broadcast>, 16 * kib, 3},
    library_algorithm{"pipeline of 64 KiB", collective::reduce, reduce_along<chain_broadcast>, 64 * kib, 3},
    library_algorithm{.name = "over all ranks", .what = collective::allreduce, .steps = mpich_allreduce, .mpich = 2},
    library_algorithm{
        .name = "node by node", .what = collective::allreduce, .steps = mpich_allreduce, .mpich = 1, .by_nodes = true},
    library_algorithm{.name = "over all ranks", .what = collective::broadcast, .steps = mpich_broadcast, .mpich = 3},
    library_algorithm{
        .name = "node by node", .what = collective::broadcast, .steps = mpich_broadcast, .mpich = 1, .by_nodes = true},
    library_algorithm{.name = "over all ranks", .what = collective::reduce, .steps = mpich_reduce, .mpich = 3},
    library_algorithm{
        .name = "node by node", .what = collective::reduce, .steps = mpich_reduce, .mpich = 1, .by_nodes = true},
    library_algorithm{"recursive doubling", collective::allgather, doubling_allgather, 0, 3, 1},
    library_algorithm{"Bruck", collective::allgather, bruck_allgather, 0, 2, 2},
    library_algorithm{"ring", collective::allgather, ring_allgather, 0, 4, 3},
};

// Reduces inside nodes to their first ranks, runs the algorithm among these, and broadcasts inside nodes, as far as the
// collective needs it. Nothing where that is no other than among all ranks.
steps by_nodes(const hierarchy& machine, const library_algorithm& how, double bytes) {
    const std::vector<int> sizes = machine.node_sizes();
    const auto first = [&](int node) { return machine.shape.first_rank(machine.node_levels() - 1, node); };
    if (std::ranges::max(sizes) == 1 || sizes.size() == 1) return {};
    steps inside, among = how.steps(static_cast<int>(sizes.size()), bytes);
    for (std::size_t node = 0; node < sizes.size(); ++node) {
        const steps own = digits_broadcast<2>(sizes[node], bytes);
        inside.resize(std::max(inside.size(), own.size()));
        for (std::size_t n = 0; n < own.size(); ++n)
            for (const library_message& m : own[n].messages)
                inside[n].messages.push_back(
                    {first(static_cast<int>(node)) + m.from, first(static_cast<int>(node)) + m.to, bytes});
    }
    for (library_step& step : among)
        for (library_message& m : step.messages) m = {first(m.from), first(m.to), m.bytes, m.added};
    if (how.what != collective::broadcast) among = joined(back_and_added(inside), among);
    return how.what == collective::reduce ? among : joined(among, inside);
}

// What steps ask of each link and rank [s].
class step_loads {
public:
    step_loads(const hierarchy& machine, const link_loads& links)
        : machine_(machine), links_(links), on_link_(at(links.size())), on_rank_(at(machine.ranks())) {}

    void add(const library_step& step) {
        for (const library_message& m : step.messages) {
            links_.for_each_link(m.from, m.to, [&](int link) {
                add(step.times * m.bytes / links_.rate(link), on_link_[at(link)], busiest_link_);
            });
            const level& nearest = machine_.levels[at(machine_.shape.common_level(m.from, m.to))];
            startup_ = std::max(startup_, nearest.latency);
            for (const int rank : {m.from, m.to}) add(step.times * nearest.overhead, on_rank_[at(rank)], busiest_rank_);
            if (m.added && machine_.processors.reduction > 0)
                add(step.times * m.bytes / machine_.processors.reduction, on_rank_[at(m.to)], busiest_rank_);
        }
    }
    // Takes back what the only step asked for: in the time of its messages, which may be few of many ranks.
    void clear(const library_step& step) {
        for (const library_message& m : step.messages) {
            links_.for_each_link(m.from, m.to, [&](int link) { on_link_[at(link)] = 0; });
            on_rank_[at(m.from)] = on_rank_[at(m.to)] = 0;
        }
        startup_ = busiest_link_ = busiest_rank_ = 0;
    }
    double startup() const noexcept { return startup_; }
    double busiest_link() const noexcept { return busiest_link_; }
    double busiest_rank() const noexcept { return busiest_rank_; }

private:
    static void add(double time, double& to, double& busiest) {
        to += time;
        busiest = std::max(busiest, to);
    }

    const hierarchy& machine_;
    const link_loads& links_;
    std::vector<double> on_link_, on_rank_;
    double startup_ = 0, busiest_link_ = 0, busiest_rank_ = 0;
};

}  // namespace

std::span<const library_algorithm> library_algorithms() noexcept { return algorithms_of_libraries; }

double library_time(const hierarchy& machine, const library_algorithm& how, std::int64_t bytes) {
    const double segments = how.segment == 0 ? 1 : std::max(1.0, std::ceil(static_cast<double>(bytes) / how.segment));
    const double each = static_cast<double>(bytes) / segments;
    const steps made = how.by_nodes ? by_nodes(machine, how, each) : how.steps(machine.ranks(), each);
    if (made.empty()) return std::numeric_limits<double>::infinity();
    const link_loads links(machine, false);
    step_loads alone(machine, links), all(machine, links);
    double time = 0;
    for (const library_step& step : made) {
        alone.add(step);
        all.add(step);
        time += step.times * alone.startup() + alone.busiest_link() + alone.busiest_rank();
        alone.clear(step);
    }
    return time + (segments - 1) * std::max(all.busiest_link(), all.busiest_rank());
}

}  // namespace terrace::detail
