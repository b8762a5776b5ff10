#include "support/plans.hpp"

#include "plan/plan_yaml.hpp"

namespace terrace::test {

namespace {

// Small enough that sums over a thousand ranks are exact in float32; differs between ranks and neighbours.
std::int64_t input(std::int64_t i, int rank, int salt) { return (i * 31 + rank * 17 + salt * 7 + i * rank % 5) % 97 - 48; }

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
    r.rules[collective::allreduce] = {only};
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

template std::int64_t wrong_elements<float>(communicator&, std::int64_t, int);
template std::int64_t wrong_elements<double>(communicator&, std::int64_t, int);

std::vector<std::int64_t> awkward_counts(int ranks) {
    return {0, 1, ranks - 1, ranks, 2 * ranks + 3, 16 * ranks + 5, 1009, 40000};
}

}  // namespace terrace::test
