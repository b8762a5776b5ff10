// Requirements for every transport, written once. worlds() returns the transports of this program.

#include <algorithm>
#include <array>
#include <fstream>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/element_types.hpp"
#include "conformance/world.hpp"
#include "support/dice.hpp"
#include "support/effort.hpp"
#include "support/plans.hpp"
#include "support/shapes.hpp"
#include "support/uneven_blocks.hpp"

namespace terrace::detail::test {

namespace {

// Returns the types whose results are rounded and may be NaN: floats and complex numbers.
std::vector<element_type> float_types() {
    std::vector<element_type> types;
    std::copy_if(all_element_types.begin(), all_element_types.end(), std::back_inserter(types),
                 [](element_type t) { return !is_defined(reduce_op::land, t); });
    return types;
}

/// A machine, and the stages, lanes and chunk of a plan for it.
struct setting {
    hierarchy machine;
    std::vector<stage> stages;
    int lanes = 1;
    std::int64_t chunk = 0;
};

std::string describe(const setting& s) {
    return fmt::format("{}: {}, {} lanes of {} bytes", text(s.machine.shape),
                       terrace::detail::describe(s.machine, s.stages), s.lanes, s.chunk);
}

bool can(const setting& s, collective what) { return test::able(s.stages, what); }

// Chooses at random, except for alltoall, which is out of place.
bool in_place(collective what, dice& d) { return d.coin() && what != collective::alltoall; }

// Returns a setting with one stage over all levels.
setting flat(const hierarchy& machine, mode how, std::string_view by) {
    std::vector<int> all;
    for (int l = 0; l < machine.depth(); ++l) all.push_back(l);
    return {machine, {run_by({all, machine.ranks(), how}, by)}};
}

std::int64_t available_memory() {
    std::ifstream in("/proc/meminfo");
    for (std::string word; in >> word;)
        if (std::int64_t kib = 0; word == "MemAvailable:" && in >> kib) return kib << 10;
    return 0;
}

// Returns a few settings of a size that together cover: each mode, an algorithm that reduces many inputs at once, one
// that reduces two at a time, chunks in lanes, and uneven domains if the suite's machines have any.
std::vector<setting> typical(int ranks) {
    std::vector<setting> result;
    const std::vector<hierarchy> machines = machines_of_size(ranks);
    result.push_back(flat(machines.front(), mode::scatter, "ring"));
    result.push_back(flat(machines.front(), mode::scatter, "direct"));
    // Each node sends several messages to each other node.
    setting exchange{machines.back(), {}, 2, 1024};
    for (int l = 0; l < exchange.machine.depth(); ++l)
        exchange.stages.push_back({{l}, exchange.machine.shape.uniform_size(l).value_or(0), mode::scatter, "direct"});
    result.push_back(exchange);
    result.push_back(flat(machines.front(), mode::root, "tree"));
    for (mode how : {mode::scatter, mode::root}) result.push_back(flat(machines.front(), how, "mpi"));
    for (const char* by : {"doubling", "shared_memory"}) result.push_back(flat(machines.front(), mode::replicate, by));
    // The last stage has one member.
    result.push_back({machine_of(tree::uniform(std::vector{ranks, 1})),
                      {{{0}, ranks, mode::replicate, "", provider::shared_memory}, {{1}, 1, mode::root, "tree"}}});
    setting deep{machines.back(), {}, 2, 256};
    deep.machine.levels.back().medium = fabric::ethernet;
    for (int l = 0; l < deep.machine.depth(); ++l)
        deep.stages.push_back(
            {{l}, deep.machine.shape.uniform_size(l).value_or(0), mode::scatter, l % 2 == 0 ? "direct" : "halving"});
    result.push_back(deep);
    for (mode how : {mode::scatter, mode::root}) {
        for (stage& s : deep.stages) s = {s.levels, s.group, how, "", provider::shared_memory};
        result.push_back(deep);
    }
    // Scatter inside the nodes, and mode root for the outermost stage.
    for (const char* inside : {"shared_memory", "ring"}) {
        setting scattered = deep;
        for (stage& s : scattered.stages) s = run_by({s.levels, s.group, mode::scatter}, inside);
        stage& last = scattered.stages.back();
        last = {last.levels, last.group, mode::root, "chain"};
        if (scattered.stages.size() > 1) result.push_back(scattered);
    }
    deep.stages.back() = {deep.stages.back().levels, deep.stages.back().group, mode::replicate, "doubling"};
    result.push_back(deep);
    // Routes of a torus, in each of which another dimension comes first; with and without levels inside the nodes.
    const tree& factors = machines.back().shape;
    for (int inside = 0; factors.uniform() && inside + 2 <= factors.depth(); ++inside) {
        std::vector<int> sizes;
        for (int l = 0; l < factors.depth(); ++l) sizes.push_back(factors.children(l, 0));
        setting torus{torus_of(sizes, factors.depth() - inside), {}, 2, 256};
        for (int l = 0; l < factors.depth(); ++l) {
            torus.stages.push_back(
                run_by({{l}, factors.children(l, 0), mode::scatter}, l < inside ? "shared_memory" : "biring"));
            torus.stages.back().route_share = l < inside ? 0 : 1 + l % 2;
        }
        result.push_back(torus);
    }
    return result;
}

class conformance : public testing::TestWithParam<world> {
protected:
    // Makes the calls one after another on one communicator.
    void expect_right(const setting& s, const std::vector<call>& calls, std::uint64_t salt = 1) {
        const auto main = [&](communicator& comm) {
            std::vector<outcome> seen;
            for (std::size_t n = 0; n < calls.size(); ++n) {
                call each = calls[n];
                each.has_factors = GetParam().on_host;
                each.digests_are_compared = true;
                seen.push_back(make(comm, each, salt + n));
            }
            return seen;
        };
        const report seen = GetParam().run(plan_of(s.machine, s.stages, s.lanes, s.chunk), main);
        for (std::size_t n = 0; n < calls.size(); ++n) {
            for (std::size_t rank = 0; rank < seen.size(); ++rank) {
                const outcome& o = seen[rank][n];
                EXPECT_EQ(o.wrong, 0) << "wrong on rank " << rank << where(s, calls[n], salt + n);
                EXPECT_EQ(o.digest, seen[0][n].digest)
                    << "rank " << rank << " has other bits than rank 0" << where(s, calls[n], salt + n);
            }
            if (HasFailure()) return;  // reports only the first wrong call
        }
    }

    static std::string where(const setting& s, const call& c, std::uint64_t salt) {
        return fmt::format("\n  plan {}\n  call {}, salt {}", describe(s), test::describe(c), salt);
    }
};

std::vector<std::int64_t> hard_counts(int ranks) {
    return {0, 1, ranks - 1, ranks, 2 * ranks + 3, 16 * ranks + 5, 1009};
}

// Returns the call with equal blocks, with some empty blocks, and with one block that holds all elements.
std::vector<call> with_blocks(call c, int ranks) {
    std::vector<call> result{c};
    if (!row_of(c.what).blocks || c.what == collective::alltoall) return result;
    for (int r = 0; r < ranks; ++r) c.counts.push_back(r % 3 * c.count / 2);
    result.push_back(c);
    std::fill(c.counts.begin(), c.counts.end(), 0);
    c.counts[static_cast<std::size_t>(ranks / 2)] = c.count;
    result.push_back(c);
    return result;
}

/// Deals out pairs of a type and an operation to plans: each plan gets a part, and all plans together get all pairs.
class turns {
public:
    explicit turns(std::span<const element_type> types) {
        for (element_type type : types)
            for (reduce_op op : ops_of(type)) pairs_.push_back({type, op});
        const int all = static_cast<int>(pairs_.size());
        each_ = static_cast<std::size_t>(
            share("types and operations of each plan", all, slowness > 1 ? slowness * all / 16 : all / 8));
    }

    // Returns the pairs of the next plan.
    std::vector<std::pair<element_type, reduce_op>> next() {
        std::vector<std::pair<element_type, reduce_op>> part;
        for (std::size_t n = 0; n < each_; ++n) part.push_back(pairs_[done_++ % pairs_.size()]);
        return part;
    }

private:
    std::vector<std::pair<element_type, reduce_op>> pairs_;
    std::size_t each_ = 0, done_ = 0;
};

// Returns a random `percent` of the calls of every collective that the setting can do: in place and out of place, with
// every count. Types, operations, roots and offsets are random, too.
std::vector<call> all_shapes(const setting& s, const std::vector<std::int64_t>& counts, dice& d, int percent) {
    const int ranks = s.machine.ranks();
    std::vector<call> calls;
    for (collective what : all_collectives) {
        if (!can(s, what)) continue;
        for (std::int64_t count : counts)
            for (bool in_place : {false, true}) {
                if (in_place && what == collective::alltoall) continue;
                call c{.what = what, .count = count, .counts = {}, .in_place = in_place};
                for (call& each : with_blocks(c, ranks)) {
                    if (d.below(100) >= static_cast<std::size_t>(percent)) continue;
                    each.type = d.pick(all_element_types);
                    each.op = d.pick(ops_of(each.type));
                    each.root = static_cast<int>(d.below(static_cast<std::size_t>(ranks)));
                    each.offset = static_cast<int>(d.below(3)) * static_cast<int>(d.below(17));
                    each.in_window = d.below(4) == 0;
                    calls.push_back(std::move(each));
                }
            }
    }
    return calls;
}

}  // namespace

// Typical settings, and a random sample of stages on machines with this many ranks.
TEST_P(conformance, shapes_and_counts) {
    const int sampled = share("sampled plans of each number of ranks", 60, 5);
    const int percent = share("percent of the calls of each plan", 100, 40 * slowness);
    for (int ranks : GetParam().sizes) {
        dice d(static_cast<std::uint64_t>(ranks));
        std::vector<setting> settings = typical(ranks);
        const std::vector<hierarchy> machines = machines_of_size(ranks);
        for (int n = 0; n < sampled; ++n) {
            const hierarchy machine = with_random_nodes(d.pick(machines), d);
            settings.push_back({machine, random_stages(machine, d.pick(all_collectives), d),
                                1 + static_cast<int>(d.below(4)), static_cast<std::int64_t>(d.below(4)) * 1024});
        }
        for (const setting& s : settings) {
            expect_right(s, all_shapes(s, hard_counts(ranks), d, percent));
            if (HasFailure()) return;
        }
    }
}

TEST_P(conformance, types_and_operations) {
    turns pairs(all_element_types);
    for (int ranks : GetParam().sizes) {
        for (const setting& s : typical(ranks)) {
            const auto part = pairs.next();
            std::vector<call> calls;
            for (collective what : all_collectives) {
                if (!can(s, what)) continue;
                std::set<element_type> moved;  // collectives without reductions run once per type
                for (const auto& [type, op] : part) {
                    if (!moved.insert(type).second && !row_of(what).up) continue;
                    call c{.what = what,
                           .type = type,
                           .op = row_of(what).up ? op : reduce_op::sum,
                           .count = 2 * ranks + 3,
                           .counts = {},
                           .root = ranks - 1,
                           .in_place = calls.size() % 2 == 0 && what != collective::alltoall,
                           .offset = 1};
                    for (const call& each : with_blocks(c, ranks)) calls.push_back(each);
                }
            }
            expect_right(s, calls);
            if (HasFailure()) return;
        }
    }
}

// Vectors longer than a segment and than a chunk, in one piece or in chunks. Each call is made twice, since its program
// is reused.
TEST_P(conformance, long_messages) {
    const bool both = share("of one piece and chunks for each plan of long messages", 2, 1) == 2;
    for (int ranks : GetParam().sizes) {
        dice d(static_cast<std::uint64_t>(ranks));
        int turn = ranks;
        for (setting s : typical(ranks)) {
            ++turn;
            for (std::int64_t chunk : {0, 65536}) {
                if (!both && (chunk > 0) != (turn % 2 > 0)) continue;
                s.chunk = chunk;
                s.lanes = chunk > 0 ? 3 : 1;
                std::vector<call> calls;
                for (collective what : all_collectives) {
                    if (!can(s, what)) continue;
                    const element_type type = d.pick(all_element_types);
                    call c{.what = what,
                           .type = type,
                           .op = d.pick(ops_of(type)),
                           .count = 40009,
                           .counts = {},
                           .root = ranks / 2,
                           .in_place = in_place(what, d),
                           .offset = 3,
                           .in_window = d.coin()};
                    if (row_of(what).blocks) c.count /= ranks;
                    calls.insert(calls.end(), {c, c});
                }
                expect_right(s, calls);
                if (HasFailure()) return;
            }
        }
    }
}

// More elements, and bytes, than one MPI call accepts in programs with tests/support/count_limit.cpp.
TEST_P(conformance, more_than_a_million_elements) {
    if (share_sanitized("calls of more than a million elements", 1, 0) == 0) return;
    for (int ranks : GetParam().sizes) {
        if (ranks > 4) continue;
        for (const setting& s : typical(ranks)) {
            if (s.chunk > 0) continue;
            std::vector<call> calls;
            for (collective what : all_collectives)
                if (can(s, what))
                    calls.push_back({.what = what,
                                     .type = element_type::int16,
                                     .count = (1 << 20) + 7,
                                     .counts = {},
                                     .root = ranks - 1,
                                     .offset = 1});
            expect_right(s, calls);
            if (HasFailure()) return;
        }
    }
}

// More elements than an int can count: two ranks with 2 GiB each.
TEST_P(conformance, more_than_2_to_the_31_elements) {
    constexpr std::int64_t count = (std::int64_t{1} << 31) + 7;
    constexpr std::int64_t needed = 3 * count;  // bytes of memory, for both ranks
    const std::vector<int>& sizes = GetParam().sizes;
    if (std::find(sizes.begin(), sizes.end(), 2) == sizes.end()) return;
    if (share("allreduces of 2^31 + 7 elements", 1, 0) == 0) return;
    const setting ring = flat(machines_of_size(2).front(), mode::scatter, "ring");
    const plan p = plan_of(ring.machine, ring.stages);
    // The memory that rank 0 sees decides for all ranks.
    const report room = GetParam().run(p, [&](communicator&) {
        return std::vector{outcome{available_memory() < needed ? 1 : 0, 0}};
    });
    if (room[0][0].wrong != 0)
        GTEST_SKIP() << "takes " << needed / (1 << 30) << " GiB of memory that is available (/proc/meminfo)";
    const report seen = GetParam().run(p, [&](communicator& comm) {
        std::vector<std::int8_t> data(static_cast<std::size_t>(count));
        const auto input = [](std::int64_t i, int rank) { return static_cast<std::int8_t>(i % 251 * (rank + 1) % 61); };
        for (std::int64_t i = 0; i < count; ++i) data[static_cast<std::size_t>(i)] = input(i, comm.rank());
        comm.allreduce(std::span(data));
        std::int64_t wrong = 0;
        for (std::int64_t i = 0; i < count; ++i)
            wrong += data[static_cast<std::size_t>(i)] != input(i, 0) + input(i, 1);
        return std::vector{outcome{wrong, 0}};
    });
    for (const std::vector<outcome>& rank : seen) EXPECT_EQ(rank[0].wrong, 0);
}

// Sums and products whose bits depend on the order of operations.
TEST_P(conformance, all_ranks_get_the_same_bits) {
    turns pairs(float_types());
    for (int ranks : GetParam().sizes) {
        for (const setting& s : typical(ranks)) {
            std::vector<call> calls;
            for (const auto& [type, op] : pairs.next())
                for (std::int64_t count : {2 * ranks + 3, 1009})
                    calls.push_back({.type = type,
                                     .op = op,
                                     .count = count,
                                     .counts = {},
                                     .in_place = calls.size() % 2 == 0,
                                     .data = contents::rough});
            expect_right(s, calls);
            if (HasFailure()) return;
        }
    }
}

TEST_P(conformance, nan_propagates) {
    turns pairs(float_types());
    for (int ranks : GetParam().sizes) {
        if (ranks > 8) continue;
        for (const setting& s : typical(ranks)) {
            const auto part = pairs.next();
            std::vector<call> calls;
            for (collective what : {collective::allreduce, collective::reduce_scatter, collective::reduce}) {
                if (!can(s, what)) continue;
                for (const auto& [type, op] : part)
                    for (int from = 0; from < ranks; ++from)
                        calls.push_back({.what = what,
                                         .type = type,
                                         .op = op,
                                         .count = 3 * ranks + 1,
                                         .counts = {},
                                         .in_place = calls.size() % 2 == 0,
                                         .nan_from = from});
            }
            expect_right(s, calls);
            if (HasFailure()) return;
        }
    }
}

// Machines, stages, lanes, chunks and calls at random, 10,000 in all.
TEST_P(conformance, random_cases) {
    constexpr int calls_each = 10;
    const std::uint64_t from = seed();
    dice d(from);
    const int all = GetParam().sizes.size() > 1 ? 1000 : 125;  // a program under mpirun has one number of ranks
    const int communicators = share("communicators of 10 random calls each", all);
    std::int64_t elements = 0;
    for (int n = 0; n < communicators && !HasFailure(); ++n) {
        const int ranks = d.pick(GetParam().sizes);
        setting s{random_machine(ranks, d),
                  {},
                  1 + static_cast<int>(d.below(4)),
                  d.coin() ? 0 : static_cast<std::int64_t>(64 << d.below(9))};
        const collective favourite = d.pick(all_collectives);
        s.stages = random_stages(s.machine, favourite, d);
        std::vector<call> calls;
        while (calls.size() < calls_each) {
            call c{.what = d.coin() ? favourite : d.pick(all_collectives), .counts = {}};
            if (!can(s, c.what)) continue;
            c.type = d.pick(all_element_types);
            c.op = d.pick(ops_of(c.type));
            const auto some_count = [&] { return static_cast<std::int64_t>(d.below(1u << d.below(13))); };
            c.count = some_count();
            if (row_of(c.what).blocks && c.what != collective::alltoall && d.coin())
                for (int r = 0; r < ranks; ++r) c.counts.push_back(d.below(4) == 0 ? 0 : some_count() / 4);
            c.root = static_cast<int>(d.below(static_cast<std::size_t>(ranks)));
            c.in_place = in_place(c.what, d);
            c.in_window = d.coin();
            c.offset = static_cast<int>(d.below(40));
            c.data = d.below(4) == 0 ? contents::rough : contents::exact;
            c.nan_from = d.below(8) == 0 ? static_cast<int>(d.below(static_cast<std::size_t>(ranks))) : -1;
            elements += c.count;
            calls.push_back(std::move(c));
        }
        expect_right(s, calls, d.roll());
        if (HasFailure()) fmt::print("communicator {} of TERRACE_TEST_SEED={}\n", n, from);
    }
    fmt::print("{} random cases, seed {}\n", communicators * calls_each, from);
    EXPECT_GT(elements, 0);
}

// Blocks whose lengths only their senders know, 10,000 calls in all.
TEST_P(conformance, random_uneven_blocks) {
    if (!GetParam().on_host) return;  // an error for device buffers
    constexpr int calls_each = 10;
    const std::uint64_t from = seed();
    dice d(from);
    const int all = GetParam().sizes.size() > 1 ? 1000 : 125;
    const int communicators = share("communicators of 10 random alltoallv, gatherv and scatterv each", all, all / 5);
    for (int n = 0; n < communicators && !HasFailure(); ++n) {
        setting s{random_machine(d.pick(GetParam().sizes), d), {}, 1 + static_cast<int>(d.below(4)), 0};
        s.stages = random_stages(s.machine, collective::gather, d);  // alltoall and scatter have the same stages
        std::vector<uneven_case> cases;
        while (cases.size() < calls_each) cases.push_back(random_uneven_case(d, s.machine.ranks()));
        const report seen = GetParam().run(plan_of(s.machine, s.stages, s.lanes, s.chunk), [&](communicator& comm) {
            std::vector<outcome> each;
            for (const uneven_case& c : cases) each.push_back({wrong_in(comm, c), 0});
            each.push_back({wrong_in_flight(comm, cases, false) + wrong_in_flight(comm, cases, true), 0});
            return each;
        });
        for (std::size_t rank = 0; rank < seen.size(); ++rank)
            for (std::size_t i = 0; i <= cases.size(); ++i)
                EXPECT_EQ(seen[rank][i].wrong, 0) << "rank " << rank << ", case " << i << ", plan " << describe(s)
                                                  << ", communicator " << n << " of TERRACE_TEST_SEED=" << from;
    }
    fmt::print("{} random alltoallv, gatherv and scatterv, seed {}\n", communicators * calls_each, from);
}

INSTANTIATE_TEST_SUITE_P(, conformance, testing::ValuesIn(worlds()),
                         [](const testing::TestParamInfo<world>& info) { return info.param.name; });

}  // namespace terrace::detail::test
