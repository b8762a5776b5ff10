// Groups of calls: requirements for every transport, written once.

#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "conformance/world.hpp"
#include "support/bad_calls.hpp"

namespace terrace::detail::test {

namespace {

class group_conformance : public testing::TestWithParam<world> {};

template <class T>
T element(int rank, int i) {
    return static_cast<T>(rank + i % 3);
}

// Buffers of one call, and the expected result in `recv`.
template <class T>
struct exchange {
    std::vector<T> send, recv, expected;

    std::int64_t wrong() const { return recv != expected; }
};

// Starts the eight collectives of one type with a count, and checks their results.
template <class T>
class calls {
public:
    calls(communicator& comm, int root) : comm_(comm), root_(root) {}

    void start(int count) {
        const int n = comm_.size(), me = comm_.rank();
        const auto of = [&](int rank, int elements, int first = 0) {
            std::vector<T> v;
            for (int i = 0; i < elements; ++i) v.push_back(element<T>(rank, first + i));
            return v;
        };
        const auto sum = [&](int elements, int first = 0) {
            std::vector<T> v(static_cast<std::size_t>(elements));
            for (int r = 0; r < n; ++r)
                for (int i = 0; i < elements; ++i) v[static_cast<std::size_t>(i)] += element<T>(r, first + i);
            return v;
        };
        const auto of_all = [&](int first) {
            std::vector<T> v;
            for (int r = 0; r < n; ++r) {
                const std::vector<T> block = of(r, count, first);
                v.insert(v.end(), block.begin(), block.end());
            }
            return v;
        };
        const auto none = [](int elements) { return std::vector<T>(static_cast<std::size_t>(elements), T(77)); };
        const auto add = [&](std::vector<T> send, std::vector<T> recv, std::vector<T> expected) -> exchange<T>& {
            done_.push_back(
                std::make_unique<exchange<T>>(exchange<T>{std::move(send), std::move(recv), std::move(expected)}));
            return *done_.back();
        };
        const bool is_root = me == root_;
        auto& a = add({}, of(me, count), sum(count));
        requests_.push_back(comm_.allreduce_async(a.recv));
        auto& b = add(of(me, count), none(count), is_root ? sum(count) : none(count));
        requests_.push_back(comm_.reduce_async(std::as_const(b.send), b.recv, root_));
        auto& c = add({}, of(me, count), of(root_, count));
        requests_.push_back(comm_.broadcast_async(c.recv, root_));
        auto& d = add(of(me, n * count), none(count), sum(count, me * count));
        requests_.push_back(comm_.reduce_scatter_async(std::as_const(d.send), d.recv));
        auto& e = add(of(me, count), none(n * count), of_all(0));
        requests_.push_back(comm_.allgather_async(std::as_const(e.send), e.recv));
        auto& f = add(of(me, n * count), none(n * count), of_all(me * count));
        requests_.push_back(comm_.alltoall_async(std::as_const(f.send), f.recv));
        auto& g = add(of(me, count), none(n * count), is_root ? of_all(0) : none(n * count));
        requests_.push_back(comm_.gather_async(std::as_const(g.send), g.recv, root_));
        auto& h = add(of(me, n * count), none(count), of(root_, count, me * count));
        requests_.push_back(comm_.scatter_async(std::as_const(h.send), h.recv, root_));
    }

    std::int64_t wrong() {
        wait_all(requests_);
        std::int64_t all = 0;
        for (const auto& each : done_) all += each->wrong();
        return all;
    }

private:
    communicator& comm_;
    int root_;
    std::vector<std::unique_ptr<exchange<T>>> done_;
    std::vector<request> requests_;
};

}  // namespace

// Two rounds: in the second, all programs exist already.
TEST_P(group_conformance, calls_of_a_group_are_right) {
    for (const int ranks : GetParam().sizes) {
        const report seen = GetParam().run(plan_for(ranks), [&](communicator& comm) {
            std::int64_t wrong = 0;
            for (int round = 0; round < 2; ++round) {
                const int root = comm.size() - 1;
                calls<double> doubles(comm, root);
                calls<int> ints(comm, 0);
                comm.group_start();
                for (const int count : {5, 0, 9000, 64}) {
                    doubles.start(count);
                    ints.start(count);
                }
                request all_are_here = comm.barrier_async();
                comm.group_end();
                std::vector<double> beside{1};
                comm.allreduce(beside);
                all_are_here.wait();
                wrong += beside[0] != comm.size();
                wrong += ints.wrong() + doubles.wrong();
            }
            return std::vector{outcome{wrong, 0}};
        });
        for (std::size_t rank = 0; rank < seen.size(); ++rank)
            EXPECT_EQ(seen[rank][0].wrong, 0) << "rank " << rank << " of " << ranks;
    }
}

// A communicator and two of its parts, each used by one thread. The threads make their calls at the same time.
TEST_P(group_conformance, parts_are_threads_of_their_own) {
    if (!GetParam().many_threads) return;
    for (const int ranks : GetParam().sizes) {
        const report seen = GetParam().run(plan_for(ranks), [&](communicator& comm) {
            communicator half = comm.split(comm.rank() % 2, 0).value(), all = comm.split(0, -comm.rank()).value();
            std::vector<std::int64_t> wrong(3);
            {
                std::vector<std::jthread> threads;
                for (std::size_t i = 0; i < wrong.size(); ++i)
                    threads.emplace_back([&, i] {
                        communicator& mine = *std::vector{&comm, &half, &all}[i];
                        for (int round = 0; round < 20; ++round) {
                            calls<double> c(mine, round % mine.size());
                            c.start(round % 2 == 0 ? 7 : 3000);
                            wrong[i] += c.wrong();
                        }
                    });
            }
            return std::vector{outcome{wrong[0] + wrong[1] + wrong[2], 0}};
        });
        for (std::size_t rank = 0; rank < seen.size(); ++rank)
            EXPECT_EQ(seen[rank][0].wrong, 0) << "rank " << rank << " of " << ranks;
    }
}

INSTANTIATE_TEST_SUITE_P(, group_conformance, testing::ValuesIn(worlds()),
                         [](const testing::TestParamInfo<world>& info) { return info.param.name; });

}  // namespace terrace::detail::test
