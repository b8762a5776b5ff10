// Messages of Open MPI's component `tuned` and of MPICH (compared in tests/exports/library_messages_test.py). Intel MPI
// has algorithms of the same names.

#include "tools/terrace/exports/library_algorithms.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>

#include "base/index.hpp"
#include "machine/link_rows.hpp"

namespace terrace::detail {

namespace {

using steps = std::vector<library_step>;

int power_within(int ranks) { return static_cast<int>(std::bit_floor(static_cast<unsigned>(ranks))); }

// p ranks, of which 2^k take part, with 2^k <= p < 2^(k+1): the first p - 2^k pairs of ranks act as one rank each.
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

// Returns steps in which each rank sends to the next, `times` times.
steps around(int ranks, double bytes, bool added, int times) {
    library_step step{.times = times};
    for (int r = 0; r < ranks; ++r) step.messages.push_back({r, (r + 1) % ranks, bytes, added});
    return {step};
}

steps joined(steps first, const steps& second) {
    first.insert(first.end(), second.begin(), second.end());
    return first;
}

// Returns a step for each power of two below `ranks`. In it, each rank sends the message `message(rank, distance)`.
template <class Message>
steps doublings(int ranks, Message message) {
    steps made;
    for (int distance = 1; distance < ranks; distance *= 2) {
        library_step& step = made.emplace_back();
        for (int r = 0; r < ranks; ++r) step.messages.push_back(message(r, distance));
    }
    return made;
}

steps recursive_doubling(int ranks, double bytes) {
    const folded f{ranks};
    steps made;
    add(made, f.between_pairs(bytes, true, true));
    const steps among_pairs = doublings(f.power, [&](int i, int distance) {
        return library_message{f.rank(i, true), f.rank(i ^ distance, true), bytes, true};
    });
    made = joined(made, among_pairs);
    add(made, f.between_pairs(bytes, false, false));
    return made;
}

// Returns exchanges of halves of halves, nearest partners first.
steps halving(const folded& f, bool odd, double bytes) {
    return doublings(f.power, [&](int i, int distance) {
        return library_message{f.rank(i, odd), f.rank(i ^ distance, odd), bytes / (2 * distance), true};
    });
}

// Returns exchanges of halves of halves, and the same steps back.
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

// Returns a broadcast by the tree in which a rank's parent lacks its highest bit.
steps binomial_broadcast(int ranks, double bytes) {
    steps made;
    for (int distance = 1; distance < ranks; distance *= 2) {
        library_step& step = made.emplace_back();
        for (int r = 0; r < distance && r + distance < ranks; ++r) step.messages.push_back({r, r + distance, bytes});
    }
    return made;
}

// Returns messages down the tree in which a rank's parent lacks its last nonzero digit to this base. Subtrees are
// consecutive ranks.
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

// Returns a broadcast by the binary tree that is filled level by level.
steps binary_broadcast(int ranks, double bytes) {
    steps made;
    for (int level = 1; level <= ranks; level *= 2) {  // ranks on this level, and one more than the ranks before it
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

// Returns the reduction with the reversed messages of a broadcast.
template <auto broadcast>
steps reduce_along(int ranks, double bytes) {
    steps made = broadcast(ranks, bytes);
    std::ranges::reverse(made);
    for (library_step& step : made)
        for (library_message& m : step.messages) m = {m.to, m.from, m.bytes, true};
    return made;
}

steps ring_allgather(int ranks, double bytes) { return around(ranks, bytes / ranks, false, ranks - 1); }

steps binomial_scatter(int ranks, double bytes) {
    return from_root(ranks, 2, [&](int blocks) { return blocks * bytes / ranks; });
}

steps scatter_allgather(int ranks, double bytes) {
    return joined(binomial_scatter(ranks, bytes), ring_allgather(ranks, bytes));
}

steps bruck_allgather(int ranks, double bytes) {
    return doublings(ranks, [&](int r, int distance) {
        return library_message{r, (r - distance + ranks) % ranks, std::min(distance, ranks - distance) * bytes / ranks};
    });
}

steps doubling_allgather(int ranks, double bytes) {
    if (power_within(ranks) != ranks) return {};
    return doublings(ranks, [&](int r, int distance) {
        return library_message{r, r ^ distance, distance * bytes / ranks};
    });
}

// Returns exchanges with the left and the right neighbour in turns. Each step sends the two blocks that arrived last.
steps neighbour_allgather(int ranks, double bytes) {
    if (ranks % 2 == 1) return ring_allgather(ranks, bytes);
    steps made;
    for (int n = 0; n < ranks / 2; ++n) {
        library_step& step = made.emplace_back();
        for (int r = 0; r < ranks; ++r)
            step.messages.push_back(
                {r, (r + (r % 2 == n % 2 ? 1 : ranks - 1)) % ranks, std::min(n + 1, 2) * bytes / ranks});
    }
    return made;
}

steps scatter_doubling(int ranks, double bytes) {
    if (power_within(ranks) != ranks) return {};
    return joined(binomial_scatter(ranks, bytes), doubling_allgather(ranks, bytes));
}

constexpr std::int64_t kib = 1024;

// Algorithms that MPICH itself chooses.
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
    return scatter_doubling(ranks, bytes);
}

steps mpich_reduce(int ranks, double bytes) {
    if (bytes <= 2 * kib) return reduce_along<digits_broadcast<2>>(ranks, bytes);
    const folded f{ranks};
    steps made;
    add(made, f.between_pairs(bytes, false, true));
    made = joined(made, halving(f, false, bytes));
    for (int distance = f.power / 2; distance > 0; distance /= 2) {
        library_step& step = made.emplace_back();
        for (int i = distance; i < 2 * distance; ++i)
            step.messages.push_back({f.rank(i, false), f.rank(i - distance, false), bytes / (2 * distance)});
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
    library_algorithm{"scatter and doubling", collective::broadcast, scatter_doubling, 0, 8},
    library_algorithm{"scatter and ring", collective::broadcast, scatter_allgather, 0, 9, 3},
    library_algorithm{"chain", collective::broadcast, chain_broadcast, 0, 2},
    library_algorithm{"pipeline of 16 KiB", collective::broadcast, chain_broadcast, 16 * kib, 3},
    library_algorithm{"pipeline of 64 KiB", collective::broadcast, chain_broadcast, 64 * kib, 3},
    library_algorithm{"linear", collective::reduce, reduce_along<linear_broadcast>, 0, 1},
    library_algorithm{"binary", collective::reduce, reduce_along<binary_broadcast>, 0, 4},
    library_algorithm{"binomial", collective::reduce, reduce_along<digits_broadcast<2>>, 0, 5, 2},
    library_algorithm{"chain", collective::reduce, reduce_along<chain_broadcast>, 0, 2},
    library_algorithm{"pipeline of 16 KiB", collective::reduce, reduce_along<chain_broadcast>, 16 * kib, 3},
    library_algorithm{"pipeline of 64 KiB", collective::reduce, reduce_along<chain_broadcast>, 64 * kib, 3},
    library_algorithm{"recursive doubling", collective::allgather, doubling_allgather, 0, 3, 1},
    library_algorithm{"Bruck", collective::allgather, bruck_allgather, 0, 2, 2},
    library_algorithm{"neighbour exchange", collective::allgather, neighbour_allgather, 0, 5},
    library_algorithm{"ring", collective::allgather, ring_allgather, 0, 4, 3},
    library_algorithm{.name = "over all ranks", .what = collective::allreduce, .steps = mpich_allreduce, .mpich = 2},
    library_algorithm{"node by node", collective::allreduce, mpich_allreduce, 0, 0, 0, 1, mpich_reduce, mpich_broadcast,
                      1},
    library_algorithm{.name = "over all ranks", .what = collective::broadcast, .steps = mpich_broadcast, .mpich = 3},
    library_algorithm{"node by node", collective::broadcast, mpich_broadcast, 0, 0, 0, 1, mpich_reduce, mpich_broadcast,
                      1},
    library_algorithm{.name = "over all ranks", .what = collective::reduce, .steps = mpich_reduce, .mpich = 3},
    library_algorithm{"node by node", collective::reduce, mpich_reduce, 0, 0, 0, 1, mpich_reduce, mpich_broadcast, 1},
};

// Choices of Open MPI's component `tuned` for at least this many ranks, from this many bytes on, as the numbers above.
// A ring or chain without segments, and an exchange between two, have the numbers of equivalent algorithms.
struct openmpi_row {
    collective what;
    int ranks;
    struct {
        int bytes, algorithm;
    } sizes[9];
};
constexpr openmpi_row openmpi_rows[]{
    {collective::allreduce, 2, {{0, 3}, {4096, 4}, {8192, 3}, {16384, 4}, {262144, 6}}},
    {collective::allreduce, 4, {{0, 3}, {8192, 6}}},
    {collective::allreduce, 16, {{0, 3}, {4096, 6}}},
    {collective::allreduce, 32, {{0, 4}, {128, 6}}},
    {collective::allreduce, 64, {{0, 3}, {262144, 6}}},
    {collective::allreduce, 128, {{0, 2}, {131072, 3}, {262144, 6}}},
    {collective::allreduce, 256, {{0, 2}, {4096, 6}}},
    {collective::allreduce, 512, {{0, 2}, {2048, 3}, {16384, 6}}},
    {collective::allreduce, 2048, {{0, 2}, {2048, 4}, {4096, 3}, {16384, 6}}},
    {collective::allreduce, 4096, {{0, 2}, {2048, 4}, {16384, 3}, {32768, 6}}},
    {collective::broadcast,
     2,
     {{0, 5}, {256, 2}, {512, 7}, {1024, 1}, {32768, 5}, {131072, 2}, {262144, 1}, {524288, 6}, {1048576, 5}}},
    {collective::broadcast, 4, {{0, 6}, {128, 5}, {2048, 6}, {8192, 1}, {1048576, 2}}},
    {collective::broadcast, 8, {{0, 7}, {4096, 5}, {16384, 6}, {32768, 1}}},
    {collective::broadcast, 16, {{0, 7}, {4096, 6}, {1048576, 8}}},
    {collective::broadcast, 32, {{0, 6}, {2048, 7}}},
    {collective::broadcast, 64, {{0, 7}}},
    {collective::broadcast, 128, {{0, 5}, {16384, 1}, {32768, 5}, {65536, 7}}},
    {collective::broadcast, 256, {{0, 7}, {16384, 4}, {32768, 7}}},
    {collective::broadcast, 1024, {{0, 7}, {524288, 8}}},
    {collective::broadcast, 2048, {{0, 7}, {262144, 8}}},
    {collective::broadcast, 4096, {{0, 7}, {8192, 5}, {16384, 7}, {262144, 8}}},
    {collective::reduce, 2, {{0, 1}, {262144, 2}}},
    {collective::reduce, 4, {{0, 4}, {4096, 2}, {65536, 5}, {262144, 1}, {524288, 5}, {1048576, 1}}},
    {collective::reduce, 8, {{0, 4}, {8192, 5}}},
    {collective::reduce, 16, {{0, 4}, {4096, 5}}},
    {collective::reduce, 32, {{0, 5}}},
    {collective::reduce, 256, {{0, 5}, {8192, 6}, {16384, 5}}},
    {collective::reduce, 512, {{0, 5}}},
    {collective::reduce, 2048, {{0, 5}, {512, 6}, {1024, 5}, {8192, 6}, {16384, 5}}},
    {collective::reduce, 4096, {{0, 5}, {1024, 6}, {2048, 5}, {8192, 6}, {16384, 5}}},
    {collective::allgather, 2, {{0, 3}}},  // bytes of allgathers are per rank
    {collective::allgather, 32, {{0, 3}, {1024, 5}, {65536, 4}}},
    {collective::allgather, 64, {{0, 3}, {512, 5}, {65536, 4}}},
    {collective::allgather, 128, {{0, 3}, {512, 5}, {131072, 4}, {524288, 5}, {1048576, 4}}},
    {collective::allgather, 256, {{0, 3}, {32, 2}, {128, 3}, {1024, 5}, {131072, 4}, {524288, 5}, {1048576, 4}}},
    {collective::allgather, 512, {{0, 3}, {64, 2}, {256, 3}, {2048, 5}}},
    {collective::allgather, 1024, {{0, 2}, {32, 3}, {256, 2}, {512, 3}, {4096, 5}}},
    {collective::allgather, 2048, {{0, 2}, {32, 3}, {128, 2}, {512, 3}, {4096, 5}}},
    {collective::allgather, 4096, {{0, 2}, {512, 3}, {4096, 5}}},
};

// Returns steps that reduce inside nodes to their first ranks, run the algorithm among these, and broadcast inside
// nodes, if the collective needs these parts. Empty if there is one node, or one rank per node.
steps by_nodes(const hierarchy& machine, const library_algorithm& how, double bytes) {
    const std::vector<int> sizes = machine.node_sizes();
    if (std::ranges::max(sizes) == 1 || sizes.size() == 1) return {};
    const auto first = [&](int node) { return machine.shape.first_rank(machine.node_levels() - 1, node); };
    const auto inside = [&](library_steps one) {
        steps made;
        for (int node = 0; node < static_cast<int>(sizes.size()); ++node) {
            if (sizes[at(node)] == 1) continue;
            const steps own = one(sizes[at(node)], bytes);
            made.resize(std::max(made.size(), own.size()));
            for (std::size_t n = 0; n < own.size(); ++n)
                for (const library_message& m : own[n].messages)
                    made[n].messages.push_back({first(node) + m.from, first(node) + m.to, m.bytes, m.added});
        }
        return made;
    };
    steps made = how.steps(static_cast<int>(sizes.size()), bytes);
    for (library_step& step : made)
        for (library_message& m : step.messages) m = {first(m.from), first(m.to), m.bytes, m.added};
    if (how.what != collective::broadcast) made = joined(inside(how.reduce_inside), made);
    if (how.what != collective::reduce) made = joined(made, inside(how.broadcast_inside));
    return made;
}

// Times at which links and ranks finish steps [s]. A rank begins a step when it has all messages of its last step.
class step_clock {
public:
    step_clock(const hierarchy& machine, const link_rows& links)
        : machine_(machine),
          links_(links),
          free_(at(links.links())),
          on_link_(free_),
          ready_(at(machine.ranks())),
          busy_(ready_),
          next_(ready_),
          on_rank_(ready_) {}

    void run(const library_step& step) {
        constexpr int settled = 8;  // from this repetition on, equal steps take the same time
        double before = 0;
        for (int n = 0; n < std::min(step.times, settled); ++n) {
            before = end_;
            run_once(step);
        }
        if (step.times > settled) {
            const double rest = (step.times - settled) * (end_ - before);
            for (std::vector<double>* times : {&free_, &ready_})
                for (double& time : *times) time += rest;
            end_ += rest;
        }
        for (const library_message& m : step.messages) add(m, step.times);
    }
    double end() const noexcept { return end_; }
    // Returns the time that the busiest link or rank needs for all steps.
    double busiest() const noexcept { return busiest_; }

private:
    const level& nearest(const library_message& m) const {
        return machine_.levels[at(machine_.shape.common_level(m.from, m.to))];
    }
    double time_to_add(const library_message& m) const {
        return m.added && machine_.processors.reduction > 0 ? m.bytes / machine_.processors.reduction : 0;
    }

    void run_once(const library_step& step) {
        for (const library_message& m : step.messages)
            for (const int rank : {m.from, m.to}) busy_[at(rank)] = next_[at(rank)] = ready_[at(rank)];
        for (const library_message& m : step.messages) {
            const level& through = nearest(m);
            for (const int rank : {m.from, m.to}) busy_[at(rank)] += through.overhead;
            const double begin = busy_[at(m.from)] + through.latency;
            double end = std::max(begin, busy_[at(m.to)]);
            links_.for_each_link(m.from, m.to, [&](int link, int, bool) {
                free_[at(link)] = std::max(free_[at(link)], begin) + m.bytes / links_.rate(link);
                end = std::max(end, free_[at(link)]);
            });
            next_[at(m.from)] = std::max(next_[at(m.from)], end);
            next_[at(m.to)] = std::max(next_[at(m.to)], end) + time_to_add(m);
        }
        for (const library_message& m : step.messages)
            for (const int rank : {m.from, m.to}) end_ = std::max(end_, ready_[at(rank)] = next_[at(rank)]);
    }

    void add(const library_message& m, int times) {
        const auto count = [&](double time, double& to) { busiest_ = std::max(busiest_, to += times * time); };
        links_.for_each_link(m.from, m.to,
                             [&](int link, int, bool) { count(m.bytes / links_.rate(link), on_link_[at(link)]); });
        count(nearest(m).overhead, on_rank_[at(m.from)]);
        count(nearest(m).overhead + time_to_add(m), on_rank_[at(m.to)]);
    }

    const hierarchy& machine_;
    const link_rows& links_;
    std::vector<double> free_, on_link_;                 // by link
    std::vector<double> ready_, busy_, next_, on_rank_;  // by rank: before the step, in the step, after the step
    double end_ = 0, busiest_ = 0;
};

}  // namespace

std::span<const library_algorithm> library_algorithms() noexcept { return algorithms_of_libraries; }

const library_algorithm* openmpi_choice(collective what, int ranks, double bytes) noexcept {
    if (what == collective::allgather) bytes /= ranks;
    int number = 0;
    for (const openmpi_row& row : openmpi_rows) {
        if (row.what != what || row.ranks > ranks) continue;
        for (const auto& size : row.sizes)
            if (size.algorithm != 0 && size.bytes <= bytes) number = size.algorithm;
    }
    // Recursive doubling needs a power of two.
    if (what == collective::allgather && number == 3 && power_within(ranks) != ranks) number = 2;
    const auto found = std::ranges::find_if(algorithms_of_libraries, [&](const library_algorithm& a) {
        return a.what == what && a.openmpi == number && a.segment == 0;
    });
    return found == algorithms_of_libraries.end() ? nullptr : &*found;
}

double library_time(const hierarchy& machine, const library_algorithm& how, std::int64_t bytes) {
    const double segments = how.segment == 0 ? 1 : std::max(1.0, std::ceil(static_cast<double>(bytes) / how.segment));
    const double each = static_cast<double>(bytes) / segments;
    const steps made =
        how.broadcast_inside != nullptr ? by_nodes(machine, how, each) : how.steps(machine.ranks(), each);
    if (made.empty()) return std::numeric_limits<double>::infinity();
    const link_rows links(machine);
    step_clock clock(machine, links);
    for (const library_step& step : made) clock.run(step);
    return clock.end() + (segments - 1) * clock.busiest();
}

}  // namespace terrace::detail
