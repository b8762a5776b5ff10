#include "support/sparse_runs.hpp"

#include <map>
#include <optional>
#include <vector>

#include "base/element_types.hpp"
#include "base/hash.hpp"
#include "base/index.hpp"
#include "support/dice.hpp"

namespace terrace::detail::test {

namespace {

// A rank's gradient of an embedding in one iteration: rows, which may repeat. Every rank can compute it.
template <class T>
struct contribution {
    std::vector<std::int64_t> rows;
    std::vector<T> values;
};

template <class T>
contribution<T> contribution_of(std::uint64_t seed, int iteration, int rank, int ranks, const gradient_parameter& p) {
    dice d(seed + 1000 * at(iteration) + 10 * at(rank) + static_cast<std::uint64_t>(p.row));
    contribution<T> c;
    const auto all = static_cast<std::size_t>(p.count / p.row);
    const std::size_t few = d.coin() ? all / 8 : 2 * all;  // sparse, or not
    for (std::size_t n = all == 0 ? 0 : d.below(few + 1); n > 0; --n)
        c.rows.push_back(static_cast<std::int64_t>(d.below(all)));
    for (std::size_t n = c.rows.size() * static_cast<std::size_t>(p.row); n > 0; --n)
        c.values.push_back(static_cast<T>(static_cast<accumulator_t<T>>(static_cast<int>(d.below(3) - 1) * ranks)));
    return c;
}

// Trains two embeddings between dense gradients; some iterations are local. Returns the number of errors.
template <class T>
outcome train_rows(communicator& comm, std::uint64_t seed, int turns) {
    dice shared(seed), own(seed + at(comm.rank()));
    const std::vector parameters{
        gradient_parameter{"first", 40}, embedding("words", 64, 3, element_type_of<T>), gradient_parameter{"middle", 5},
        embedding("places", shared.below(9) == 0 ? 0 : 20, 1, element_type_of<T>), gradient_parameter{"last", 7}};
    gradient_options o;
    o.bucket_bytes = shared.coin() ? 0 : 1000;
    o.op = shared.coin() ? reduce_op::sum : reduce_op::avg;
    o.dense_above = shared.coin() ? 0.3 : 0;
    gradient_reducer reducer(comm, parameters, o);
    outcome seen_all;
    std::int64_t& wrong = seen_all.wrong;
    for (int iteration = 0, turn = 0; turn < turns; ++turn) {
        const int first = iteration, last = first + static_cast<int>(shared.below(3));
        for (; iteration <= last; ++iteration) {
            std::optional<local_iterations> local;
            if (iteration < last) local.emplace(reducer.no_sync());
            std::vector<int> order{4, 3, 2, 1, 0};
            std::swap(order[own.below(5)], order[own.below(5)]);
            for (int p : order) {
                if (parameters[at(p)].row == 0) {
                    for (float& x : reducer.gradient<float>(p)) x = static_cast<float>(comm.rank());
                    reducer.ready(p);
                } else {
                    const auto c = contribution_of<T>(seed, iteration, comm.rank(), comm.size(), parameters[at(p)]);
                    reducer.ready(p, std::span(c.rows), std::span<const T>(c.values));
                }
            }
            reducer.finish();
        }
        const int n = comm.size(), ranks_sum = n * (n - 1) / 2;
        for (int p : {0, 2, 4})
            for (float x : reducer.gradient<float>(p))
                wrong += x != (o.op == reduce_op::sum ? static_cast<float>(ranks_sum) : static_cast<float>(n - 1) / 2);
        for (int p : {1, 3}) {
            const auto row = static_cast<std::size_t>(parameters[at(p)].row);
            std::map<std::int64_t, std::vector<double>> oracle;
            for (int i = first; i <= last; ++i)
                for (int r = 0; r < n; ++r) {
                    const auto c = contribution_of<T>(seed, i, r, n, parameters[at(p)]);
                    for (std::size_t k = 0; k < c.values.size(); ++k) {
                        auto& sum = oracle[c.rows[k / row]];
                        sum.resize(row);
                        sum[k % row] += static_cast<double>(static_cast<accumulator_t<T>>(c.values[k]));
                    }
                }
            const gradient_rows<T> seen = reducer.rows<T>(p);
            seen_all.digest = hash_of(seen.values.data(), seen.values.size_bytes(), seen_all.digest);
            wrong += seen.rows.size() != oracle.size() || seen.values.size() != row * oracle.size();
            std::size_t k = 0;
            for (const auto& [number, sum] : oracle) {
                if (k >= seen.rows.size()) break;
                wrong += seen.rows[k] != number;
                for (std::size_t i = 0; i < row; ++i)
                    wrong += static_cast<double>(static_cast<accumulator_t<T>>(seen.values[k * row + i])) !=
                             sum[i] / (o.op == reduce_op::avg ? n : 1);
                ++k;
            }
        }
    }
    return seen_all;
}

}  // namespace

outcome train_sparse(communicator& comm, std::uint64_t seed, int turns) {
    return seed % 2 == 0 ? train_rows<float>(comm, seed, turns) : train_rows<float16>(comm, seed, turns);
}

}  // namespace terrace::detail::test
