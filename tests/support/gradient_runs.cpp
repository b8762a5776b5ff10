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

// A training run on one rank. The seed decides the actions of all ranks, so each rank can compute the expected results.
class random_training {
public:
    random_training(const communicator& comm, std::uint64_t seed)
        : ranks_(comm.size()), rank_(comm.rank()), seed_(seed), shared_(seed) {
        options_.bucket_bytes = shared_.pick(std::vector<std::int64_t>{0, 64, 4096, 100'000, 1 << 20});
        options_.first_bucket_bytes = shared_.pick(std::vector<std::int64_t>{0, 256, 1 << 20});
        options_.unused =
            shared_.pick(std::vector{unused_parameters::error, unused_parameters::find, unused_parameters::fixed});
        if (shared_.coin()) options_.op = reduce_op::sum;
        else options_.weighted = shared_.coin();
        for (std::size_t n = 1 + shared_.below(12); n > 0; --n) {
            const std::int64_t count = shared_.pick(std::vector<std::int64_t>{0, 1, 7, 64, 257, 1000, 3000});
            element_type type = shared_.coin() ? element_type::float32 : shared_.pick(gradient_types);
            if (options_.weighted && size_of(type) < 4) type = element_type::float64;  // keeps sums exact
            parameters_.push_back({"p" + std::to_string(n), count, type, nullptr});
        }
        memory_.resize(parameters_.size());
        is_dropped_.resize(parameters_.size());
        dice own(seed + 77 * at(rank_));
        for (std::size_t p = 0; p < parameters_.size(); ++p) {
            if (own.coin()) continue;  // its memory is in its bucket
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
        for (int p = 0; p < size(); ++p) each_element(reducer, p, [](double, std::int64_t) { return stale; });
        // Ranks run out of data one after another; rank `most` has data to the end.
        const std::size_t most = shared_.below(at(ranks_));
        for (int r = 0; r < ranks_; ++r) {
            const bool stops = options_.weighted && at(r) != most;
            stop_.push_back(stops ? static_cast<int>(shared_.below(at(iterations + 1))) : iterations);
        }
        for (; turn_ < stop_[at(rank_)]; ++turn_) {
            plan_turn();
            synchronise(reducer);
        }
        if (options_.weighted)
            reducer.join([&] {
                plan_turn();
                check_all(reducer);
                ++turn_;
            });
        seen_.wrong += turn_ != iterations;
        seen_.digest = hash_of(&turn_, sizeof turn_, seen_.digest + static_cast<std::uint64_t>(reducer.rebuilds()));
        return seen_;
    }

private:
    static constexpr double stale = 0.5;  // value of unused gradients, which no sum has

    int size() const { return static_cast<int>(parameters_.size()); }
    bool is_active(int rank) const { return turn_ < stop_[at(rank)]; }

    // Plans the next turn, equally on all ranks: its number of local iterations, and the dropped parameters.
    void plan_turn() {
        last_ = first_ + static_cast<int>(shared_.below(4) == 0 ? shared_.below(3) : 0);
        const bool drops = !options_.weighted && options_.unused != unused_parameters::fixed && shared_.below(5) == 0;
        for (char& each : is_dropped_) each = static_cast<char>(drops && shared_.coin());
        root_ = static_cast<int>(shared_.below(at(ranks_ + 1))) - 1;  // -1: all ranks name the dropped parameters
    }

    // Runs local iterations, if any, and one that reduces their sums.
    void synchronise(gradient_reducer& reducer) {
        std::vector<int> dropped;
        for (int p = 0; p < size(); ++p)
            if (is_dropped_[at(p)] != 0) dropped.push_back(p);
        if (!options_.weighted && root_ < 0) reducer.drop(dropped);
        if (!options_.weighted && root_ >= 0) reducer.drop(rank_ == root_ ? dropped : std::vector<int>(), root_);
        if (options_.weighted) reducer.set_weight(weight(rank_));
        {
            const local_iterations local = reducer.no_sync();
            for (int n = first_; n < last_; ++n) backward(reducer, n);
        }
        backward(reducer, last_);
        check_all(reducer);
    }

    void backward(gradient_reducer& reducer, int iteration) {
        std::vector<int> order(parameters_.size());
        std::iota(order.begin(), order.end(), 0);
        // Rank 0 keeps an order for five iterations.
        dice own(seed_ * 31 + 1000 * at(rank_ == 0 ? iteration / 5 : iteration) + at(rank_));
        for (std::size_t p = order.size(); p > 1; --p) std::swap(order[p - 1], order[own.below(p)]);
        std::erase_if(order, [&](int p) {
            return !uses(iteration, rank_, p) || (iteration == last_ && is_dropped_[at(p)] != 0);
        });
        if (options_.unused == unused_parameters::find && own.coin()) reducer.forward_done(order);
        for (int p : order) {
            each_element(reducer, p, [&](double x, std::int64_t i) {
                return (x == stale ? 0 : x) + value(iteration, rank_, p, i);
            });
            reducer.ready(p);
            if (own.below(4) == 0) reducer.poll();
        }
        reducer.finish();
    }

    // Compares with the expected values. Then sets all gradients to `stale`, which unused gradients must keep.
    void check_all(gradient_reducer& reducer) {
        for (int p = 0; p < size(); ++p)
            each_element(reducer, p, [&](double x, std::int64_t i) {
                seen_.wrong += x != expected(p, i);
                if (is_dropped_[at(p)] == 0 && is_used(p)) seen_.digest = hash_of(&x, sizeof x, seen_.digest);
                return stale;
            });
        first_ = last_ + 1;
    }

    double expected(int p, std::int64_t i) const {
        if (is_dropped_[at(p)] != 0) return parameters_[at(p)].gradient == nullptr ? 0 : local_sum(p, i);
        if (!is_used(p)) return stale;
        double sum = 0, weights = 0;
        for (int r = 0; r < ranks_; ++r) {
            if (!is_active(r)) continue;
            weights += weight(r);
            for (int n = first_; n <= last_; ++n)
                if (uses(n, r, p)) sum += value(n, r, p, i) * weight(r);
        }
        return options_.op == reduce_op::avg ? sum / weights : sum;
    }

    // Returns this rank's local sum in a gradient that was not reduced.
    double local_sum(int p, std::int64_t i) const {
        double sum = 0;
        bool any = false;
        for (int n = first_; n < last_; ++n) {
            if (!uses(n, rank_, p)) continue;
            sum = (sum == stale ? 0 : sum) + value(n, rank_, p, i);
            any = true;
        }
        return any ? sum : stale;
    }

    bool is_used(int p) const {
        if (options_.unused == unused_parameters::fixed) {  // by ranks active in the first turn
            for (int r = 0; r < ranks_; ++r)
                if (stop_[at(r)] > 0 && uses(0, r, p)) return true;
            return false;
        }
        for (int n = first_; n <= last_; ++n)
            for (int r = 0; r < ranks_; ++r)
                if (is_active(r) && uses(n, r, p)) return true;
        return false;
    }

    bool uses(int iteration, int rank, int p) const {
        if (options_.unused == unused_parameters::error) return true;
        const int n = options_.unused == unused_parameters::fixed ? 0 : iteration;
        const std::uint64_t key[] = {seed_, at(n), at(rank), at(p)};
        return hash_of(key, sizeof key) % 3 != 0;
    }

    // Returns the weight of an active rank: 1/2, 1/4, ..., the last value twice. The sum is 1, so nothing is rounded.
    double weight(int rank) const {
        if (!options_.weighted) return 1;
        double w = 1;
        int left = 0;
        for (int r = 0; r < ranks_; ++r) left += is_active(r);
        for (int r = 0; r <= rank; ++r)
            if (is_active(r) && --left > 0) w /= 2;
        return w;
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

    // Returns a multiple of the number of ranks, so small that every sum is exact in every type.
    double value(int iteration, int rank, int p, std::int64_t i) const {
        const bool narrow = parameters_[at(p)].type == element_type::bfloat16;
        if (narrow && iteration % 3 != 0) return 0;  // a turn has at most three iterations
        const std::uint64_t key[] = {seed_, at(iteration), at(rank), at(p), static_cast<std::uint64_t>(i)};
        return (static_cast<double>(hash_of(key, sizeof key) % 3) - 1) * ranks_;
    }

    int ranks_, rank_;
    std::uint64_t seed_;
    dice shared_;  // equal on all ranks
    std::vector<gradient_parameter> parameters_;
    gradient_options options_;
    std::vector<std::vector<std::byte>> memory_;  // of gradients with memory outside their bucket
    std::vector<int> stop_;                       // by rank: its first turn without data
    std::vector<char> is_dropped_;                // by parameter, in this turn
    int root_ = -1;
    int turn_ = 0;
    int first_ = 0, last_ = 0;  // iterations of this turn; the last one reduces
    outcome seen_;
};

}  // namespace

outcome train(communicator& comm, const gradient_run& run) {
    return random_training(comm, run.seed).run(comm, run.iterations);
}

}  // namespace terrace::detail::test
