#include "support/gradient_runs.hpp"

#include <algorithm>
#include <array>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "base/element_types.hpp"
#include "base/hash.hpp"
#include "base/index.hpp"
#include "support/dice.hpp"

namespace terrace::detail::test {

namespace {

constexpr std::array gradient_types{element_type::float32, element_type::float64, element_type::float16,
                                    element_type::bfloat16};

// What one rank does in a training run. All that ranks do follows from the seed, so that each rank is the oracle.
class random_training {
public:
    random_training(const communicator& comm, std::uint64_t seed)
        : ranks_(comm.size()), rank_(comm.rank()), seed_(seed), shared_(seed) {
        for (std::size_t n = 1 + shared_.below(12); n > 0; --n) {
            const std::int64_t count = shared_.pick(std::vector<std::int64_t>{0, 1, 7, 64, 257, 1000, 3000});
            const element_type type = shared_.coin() ? element_type::float32 : shared_.pick(gradient_types);
            parameters_.push_back({"p" + std::to_string(n), count, type, nullptr});
        }
        options_.bucket_bytes = shared_.pick(std::vector<std::int64_t>{0, 64, 4096, 100'000, 1 << 20});
        options_.first_bucket_bytes = shared_.pick(std::vector<std::int64_t>{0, 256, 1 << 20});
        if (shared_.coin()) options_.op = reduce_op::sum;
        memory_.resize(parameters_.size());
        dice own(seed + 77 * at(rank_));
        for (std::size_t p = 0; p < parameters_.size(); ++p) {
            if (own.coin()) continue;  // lives in its bucket
            memory_[p].resize(8 * static_cast<std::size_t>(parameters_[p].count) + 1);
            parameters_[p].gradient = memory_[p].data();
        }
    }

    outcome run(communicator& comm, int iterations) {
        std::optional<communicator> second;
        std::vector<communicator*> comms{&comm};
        if (shared_.below(3) == 0) {
            second = comm.split(0, comm.rank());
            comms.push_back(&*second);
        }
        gradient_reducer reducer(comms, parameters_, options_);
        for (int i = 0; i < iterations; ++i) synchronise(reducer);
        return seen_;
    }

private:
    // Iterations that are local, if any, and one that reduces what they have added up.
    void synchronise(gradient_reducer& reducer) {
        const int last = first_ + static_cast<int>(shared_.below(4) == 0 ? shared_.below(3) : 0);
        {
            const local_iterations local = reducer.no_sync();
            for (int n = first_; n < last; ++n) backward(reducer, n);
        }
        backward(reducer, last);
        for (int p = 0; p < static_cast<int>(parameters_.size()); ++p) check(reducer, p, last);
        first_ = last + 1;
    }

    void backward(gradient_reducer& reducer, int iteration) {
        std::vector<int> order(parameters_.size());
        std::iota(order.begin(), order.end(), 0);
        dice own(seed_ * 31 + 1000 * at(iteration) + at(rank_));
        for (std::size_t p = order.size(); p > 1; --p) std::swap(order[p - 1], order[own.below(p)]);
        for (int p : order) {
            each_element(reducer, p, [&](double x, std::int64_t i) { return x + value(iteration, rank_, p, i); });
            reducer.ready(p);
            if (own.below(4) == 0) reducer.poll();
        }
        reducer.finish();
    }

    // Compares with the oracle, and leaves zeros.
    void check(gradient_reducer& reducer, int p, int last) {
        each_element(reducer, p, [&](double x, std::int64_t i) {
            double sum = 0;
            for (int n = first_; n <= last; ++n)
                for (int r = 0; r < ranks_; ++r) sum += value(n, r, p, i);
            seen_.wrong += x != (options_.op == reduce_op::avg ? sum / ranks_ : sum);
            seen_.digest = hash_of(&x, sizeof x, seen_.digest);
            return 0.0;
        });
    }

    template <class Change>
    void each_element(gradient_reducer& reducer, int p, Change change) {
        with_type(parameters_[at(p)].type, [&]<class T>(std::type_identity<T>) {
            if constexpr (is_float_element<T>) {
                using wide = accumulator_t<T>;
                std::int64_t i = 0;
                for (T& x : reducer.gradient<T>(p))
                    x = static_cast<T>(static_cast<wide>(change(static_cast<double>(static_cast<wide>(x)), i++)));
            }
        });
    }

    // Multiples of the number of ranks, so small that every sum is exact in every type.
    double value(int iteration, int rank, int p, std::int64_t i) const {
        const bool narrow = parameters_[at(p)].type == element_type::bfloat16;
        if (narrow && iteration % 3 != 0) return 0;  // no more than three iterations add up
        const std::uint64_t key[] = {seed_, at(iteration), at(rank), at(p), static_cast<std::uint64_t>(i)};
        return (static_cast<double>(hash_of(key, sizeof key) % 3) - 1) * ranks_;
    }

    int ranks_, rank_;
    std::uint64_t seed_;
    dice shared_;  // in the same state on all ranks
    std::vector<gradient_parameter> parameters_;
    gradient_options options_;
    std::vector<std::vector<std::byte>> memory_;  // of gradients that do not live in their bucket
    int first_ = 0;                               // iteration since the last result
    outcome seen_;
};

}  // namespace

outcome train(communicator& comm, const gradient_run& run) {
    return random_training(comm, run.seed).run(comm, run.iterations);
}

}  // namespace terrace::detail::test
