#include "support/plans.hpp"

#include <algorithm>
#include <functional>
#include <numeric>

#include "plan/plan_yaml.hpp"

namespace terrace::test {

namespace {

// Small enough that sums over a thousand ranks are exact in float32; differs between ranks and neighbours.
std::int64_t input(std::int64_t i, int rank, int salt) {
    return (i * 31 + rank * 17 + salt * 7 + i * rank % 5) % 97 - 48;
}

}  // namespace

plan plan_of(const hierarchy& machine, const std::vector<stage>& stages, int lanes, std::int64_t chunk) {
    recipe r;
    r.name = "test";
    r.machine = machine;
    rule only;
    only.lanes = lanes;
    only.chunk = chunk;
    only.at = 1 << 20;
    only.stages = stages;
    const auto all = [&](mode m) {
        return std::all_of(stages.begin(), stages.end(), [&](const stage& s) { return s.how == m; });
    };
    r.rules[collective::allreduce] = {only};
    if (all(mode::scatter)) r.rules[collective::reduce_scatter] = r.rules[collective::allgather] = {only};
    if (all(mode::root)) r.rules[collective::broadcast] = r.rules[collective::reduce] = {only};
    return plan(std::make_shared<const recipe>(finished(std::move(r))));
}

template <element T>
std::int64_t wrong_elements(communicator& comm, std::int64_t count, int salt) {
    constexpr T guard = -12345;
    std::vector<T> memory(static_cast<std::size_t>(count + 2), guard);
    const std::span<T> data = std::span(memory).subspan(1, static_cast<std::size_t>(count));
    for (std::int64_t i = 0; i < count; ++i)
        data[static_cast<std::size_t>(i)] = static_cast<T>(input(i, comm.rank(), salt));
    comm.allreduce(data);
    std::int64_t wrong = (memory.front() != guard) + (memory.back() != guard);
    for (std::int64_t i = 0; i < count; ++i) {
        std::int64_t sum = 0;
        for (int rank = 0; rank < comm.size(); ++rank) sum += input(i, rank, salt);
        wrong += data[static_cast<std::size_t>(i)] != static_cast<T>(sum);
    }
    return wrong;
}

namespace {

// A buffer with a guard at both ends, one element off its allocation's alignment.
template <element T>
class guarded {
public:
    guarded(std::int64_t count, const std::function<std::int64_t(std::int64_t)>& value)
        : memory_(static_cast<std::size_t>(count) + 2, guard) {
        for (std::int64_t i = 0; i < count; ++i) memory_[static_cast<std::size_t>(i + 1)] = static_cast<T>(value(i));
    }
    std::span<T> data() { return std::span(memory_).subspan(1, memory_.size() - 2); }
    std::span<const T> input() { return data(); }

    // Elements that differ from what they should be.
    std::int64_t wrong(const std::function<std::int64_t(std::int64_t)>& expected) const {
        std::int64_t wrong = (memory_.front() != guard) + (memory_.back() != guard);
        for (std::size_t i = 1; i + 1 < memory_.size(); ++i)
            wrong += memory_[i] != static_cast<T>(expected(static_cast<std::int64_t>(i) - 1));
        return wrong;
    }

private:
    static constexpr T guard = 111;
    std::vector<T> memory_;
};

}  // namespace

template <element T>
std::int64_t wrong_elements_of_all(communicator& comm, const plan& p, std::int64_t count, int salt) {
    const int ranks = comm.size(), me = comm.rank();
    const auto mine = [&](std::int64_t i) { return input(i, me, salt); };
    const auto sum = [&](std::int64_t i) {
        std::int64_t total = 0;
        for (int r = 0; r < ranks; ++r) total += input(i, r, salt);
        return total;
    };
    const auto junk = [](std::int64_t) { return std::int64_t{77}; };
    const auto has = [&](collective c) { return p.get().rules.contains(c); };
    std::int64_t wrong = wrong_elements<float>(comm, count, salt);
    {
        guarded<T> send(count, mine), recv(count, junk);
        comm.allreduce(send.input(), recv.data());
        wrong += recv.wrong(sum) + send.wrong(mine);
        // Sums that divide, so that every type is exact.
        guarded<T> data(count, [&](std::int64_t i) { return ranks * mine(i); });
        comm.allreduce(data.data(), reduce_op::avg);
        wrong += data.wrong(sum);
        comm.allreduce(send.data(), reduce_op::max);
        wrong += send.wrong([&](std::int64_t i) {
            std::int64_t most = input(i, 0, salt);
            for (int r = 1; r < ranks; ++r) most = std::max(most, input(i, r, salt));
            return most;
        });
    }
    // Equal blocks, and blocks of which some are empty.
    std::vector<std::int64_t> equal(static_cast<std::size_t>(ranks), count), uneven = equal;
    for (std::size_t r = 0; r < uneven.size(); ++r) uneven[r] = static_cast<std::int64_t>(r) % 3 * count / 2;
    for (const auto& counts : {equal, uneven}) {
        const std::int64_t all = std::reduce(counts.begin(), counts.end()), own = counts[static_cast<std::size_t>(me)];
        const std::int64_t begin = std::reduce(counts.begin(), counts.begin() + me);
        const auto result = [&](std::int64_t i) { return sum(begin + i); };
        const auto gathered = [&](std::int64_t i) {
            int r = 0;
            for (; i >= counts[static_cast<std::size_t>(r)]; ++r) i -= counts[static_cast<std::size_t>(r)];
            return input(i, r, salt);
        };
        const bool simple = counts == equal;
        if (has(collective::reduce_scatter)) {
            guarded<T> send(all, mine), recv(own, junk);
            if (simple) comm.reduce_scatter(send.input(), recv.data());
            else comm.reduce_scatter(send.input(), recv.data(), counts);
            wrong += recv.wrong(result) + send.wrong(mine);
            const auto block = send.data().subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(own));
            comm.reduce_scatter(send.input(), block, counts);
            wrong += send.wrong([&](std::int64_t i) { return i >= begin && i < begin + own ? sum(i) : mine(i); });
        }
        if (has(collective::allgather)) {
            guarded<T> send(own, mine), recv(all, junk);
            if (simple) comm.allgather(send.input(), recv.data());
            else comm.allgather(send.input(), recv.data(), counts);
            wrong += recv.wrong(gathered) + send.wrong(mine);
            guarded<T> both(all, [&](std::int64_t i) { return i >= begin && i < begin + own ? mine(i - begin) : 77; });
            const auto block = both.input().subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(own));
            comm.allgather(block, both.data(), counts);
            wrong += both.wrong(gathered);
        }
    }
    for (int root : {0, ranks - 1}) {
        if (has(collective::broadcast)) {
            guarded<T> data(count, mine);
            comm.broadcast(data.data(), root);
            wrong += data.wrong([&](std::int64_t i) { return input(i, root, salt); });
        }
        if (has(collective::reduce)) {
            guarded<T> send(count, mine), recv(me == root ? count : 0, junk);
            comm.reduce(send.input(), recv.data(), root);
            wrong += recv.wrong(sum) + send.wrong(mine);
            comm.reduce(send.input(), send.data(), root);
            wrong += send.wrong([&](std::int64_t i) { return me == root ? sum(i) : mine(i); });
        }
    }
    return wrong;
}

template std::int64_t wrong_elements<float>(communicator&, std::int64_t, int);
template std::int64_t wrong_elements<double>(communicator&, std::int64_t, int);
template std::int64_t wrong_elements_of_all<float>(communicator&, const plan&, std::int64_t, int);
template std::int64_t wrong_elements_of_all<std::int64_t>(communicator&, const plan&, std::int64_t, int);

std::vector<std::int64_t> awkward_counts(int ranks) {
    return {0, 1, ranks - 1, ranks, 2 * ranks + 3, 16 * ranks + 5, 1009, 40000};
}

}  // namespace terrace::test
