// Memory that a communicator keeps, whatever calls it makes, and errors if memory runs out.

#include <arpa/inet.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <terrace/error.hpp>
#include <terrace/loopback.hpp>

#include "base/index.hpp"
#include "support/allocations.hpp"
#include "support/effort.hpp"
#include "support/plans.hpp"
#include "support/shapes.hpp"
#include "transport/liveness/lifelines.hpp"

namespace terrace::detail::test::memory_test {

namespace {

constexpr std::int64_t elements = 1 << 20;

// Returns a plan with chunks; for 0 without chunks, so scratch memory holds the whole vector.
plan plan_in(std::int64_t chunk) {
    return plan_of(machine_of(tree::uniform(std::vector{2})), {run_by({{0}, 2, mode::scatter}, "ring")}, 2, chunk);
}

struct pages {
    std::size_t all = 0, resident = 0;
};

pages bytes_now() {
    pages p;
    std::ifstream("/proc/self/statm") >> p.all >> p.resident;
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    return {p.all * page, p.resident * page};
}

// Returns the lengths of two blocks, each about half of the elements, other ones for each call.
std::vector<std::int64_t> counts_of(int call) { return {elements / 2 - 16 * call, elements / 2 - 32 * call}; }

// Returns by how much the process grows while `call(comm, counts)` is made with 50 different counts.
template <class Call>
std::size_t growth(const plan& p, Call call) {
    std::size_t grown = 0;
    loopback::run(p, [&](communicator& comm) {
        call(comm, counts_of(0));
        comm.barrier();
        const std::size_t before = bytes_now().resident;
        for (int n = 1; n <= 50; ++n) call(comm, counts_of(n));
        comm.barrier();
        if (comm.rank() == 0) grown = bytes_now().resident - std::min(bytes_now().resident, before);
        comm.barrier();
    });
    return grown;
}

// Gives rank 0's value for all other ranks, so they all seem to listen at its address. The first ranks of nodes seem to
// have made no connection, since rank 0 would wait for it.
class ranks_alike final : public bootstrap {
public:
    explicit ranks_alike(int on_each_node) : bootstrap("a node"), on_each_node_(on_each_node) {}

    std::vector<std::string> exchange(std::span<const int> ranks, std::string_view, std::string_view value,
                                      const wait_hook&) override {
        std::vector<std::string> all(ranks.size(), std::string(value));
        const std::string none(sizeof(std::uint32_t), '\0');
        if (value.size() == none.size())
            for (std::size_t r = at(on_each_node_); r < all.size(); r += at(on_each_node_)) all[r] = none;
        return all;
    }

private:
    int on_each_node_;
};

}  // namespace

TEST(memory, of_counts_that_change_is_that_of_one_call) {
    if (slowness > 1) GTEST_SKIP() << "sanitizers keep what is freed";
    const std::vector<float> ones(elements, 1);
    for (const std::int64_t chunk : {0, 1 << 18}) {
        const auto reduces = [&](reduction op) {
            return growth(plan_in(chunk), [&, op](communicator& comm, const std::vector<std::int64_t>& counts) {
                std::vector<float> own(static_cast<std::size_t>(counts[static_cast<std::size_t>(comm.rank())]));
                comm.reduce_scatter(ones.data(), own.data(), counts, element_type::float32, op);
                EXPECT_EQ(own, std::vector<float>(own.size(), 2));
            });
        };
        EXPECT_LT(reduces(reduce_op::sum), std::size_t{24} << 20) << chunk;
        EXPECT_LT(growth(plan_in(chunk),
                         [&](communicator& comm, const std::vector<std::int64_t>& counts) {
                             std::vector<float> all(static_cast<std::size_t>(counts[0] + counts[1]));
                             comm.allgather(ones.data(), all.data(), counts, element_type::float32);
                             EXPECT_EQ(all, std::vector<float>(all.size(), 1));
                         }),
                  std::size_t{24} << 20)
            << chunk;
        EXPECT_LT(growth(plan_in(chunk),
                         [&](communicator& comm, const std::vector<std::int64_t>& counts) {
                             std::vector<float> own(static_cast<std::size_t>(counts[0]));
                             comm.reduce_scatter(ones.data(), own.data(), counts[0], element_type::float32,
                                                 premul_sum(2));
                         }),
                  std::size_t{24} << 20)
            << chunk;
    }
}

// However much memory may be kept, calls in flight have separate memory, and all results are right.
TEST(memory, may_be_kept_by_nobody) {
    for (const std::size_t kept : {std::size_t{0}, std::size_t{1} << 30}) {
        options o;
        o.memory = kept;
        loopback::run(
            plan_in(4096),
            [](communicator& comm) {
                constexpr int calls = 40;
                std::vector<std::vector<int>> given(calls), got(calls);
                std::vector<request> requests;
                for (int round = 0; round < 2; ++round) {
                    for (int n = 0; n < calls; ++n) {
                        const std::size_t own = 100 * static_cast<std::size_t>(n) + 7;
                        given[static_cast<std::size_t>(n)].assign(own, n + comm.rank());
                        got[static_cast<std::size_t>(n)].assign(2 * own, -1);
                        requests.push_back(
                            comm.allgather_async(given[static_cast<std::size_t>(n)], got[static_cast<std::size_t>(n)]));
                    }
                    for (request& r : requests) r.wait();
                    requests.clear();
                    for (int n = 0; n < calls; ++n) {
                        std::vector<int> due(100 * static_cast<std::size_t>(n) + 7, n);
                        due.resize(2 * due.size(), n + 1);
                        EXPECT_EQ(got[static_cast<std::size_t>(n)], due) << n;
                    }
                }
            },
            o);
    }
}

TEST(memory, that_is_not_there_is_named) {
    if (slowness > 1) GTEST_SKIP() << "sanitizers reserve more addresses than a limit allows";
    constexpr std::int64_t many = std::int64_t{1} << 28;
    std::vector<std::string> said(2);
    rlimit before{};
    getrlimit(RLIMIT_AS, &before);
    loopback::run(plan_in(0), [&](communicator& comm) {
        // The call fails before it accesses its buffers, so there is no memory at this address.
        float* const nowhere = reinterpret_cast<float*>(std::uintptr_t{1} << 40);  // NOLINT(performance-no-int-to-ptr)
        comm.barrier();
        if (comm.rank() == 0) {
            rlimit now = before;
            now.rlim_cur = bytes_now().all + (std::size_t{256} << 20);
            setrlimit(RLIMIT_AS, &now);
        }
        comm.barrier();
        try {
            comm.reduce_scatter(nowhere, nowhere + 2 * many, many, element_type::float32, reduce_op::sum);
        } catch (const memory_error& e) {
            said[static_cast<std::size_t>(comm.rank())] = e.what();
        }
    });
    setrlimit(RLIMIT_AS, &before);
    for (const std::string& text : said)
        EXPECT_NE(text.find("were wanted for scratch memory of reduce_scatter of blocks of 268435456 float32"),
                  std::string::npos)
            << text;
}

// A rank has two connections for each power of two of the nodes. It keeps only a number for each other rank.
TEST(memory, of_lifelines_is_a_number_for_each_rank_and_a_little_for_each_line) {
    constexpr int nodes = 64, on_each_node = 64, ranks = nodes * on_each_node, lines = 6;
    std::vector<std::vector<int>> by_node(nodes);
    for (int r = 0; r < ranks; ++r) by_node[at(r / on_each_node)].push_back(r);
    team all(std::make_shared<ranks_alike>(on_each_node), 0, ranks);
    const network_interface loopback{.name = "lo", .address = ::inet_addr("127.0.0.1")};
    const std::ptrdiff_t before = bytes_kept();
    const lifelines own(all, by_node, std::chrono::seconds(20), loopback, {});
    const std::ptrdiff_t kept = bytes_kept() - before;
    EXPECT_EQ(own.ends().size(), at(lines));
    EXPECT_EQ(own.of(on_each_node + 1), 2 * lines);
    EXPECT_LE(kept, static_cast<std::ptrdiff_t>(sizeof(int) * ranks + 1024 * lines));
}

}  // namespace terrace::detail::test::memory_test
