#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include <terrace/gradients.hpp>

#include "gradients/bucket_set.hpp"
#include "gradients/iteration_clock.hpp"
#include "gradients/order_trace.hpp"
#include "gradients/row_exchange.hpp"
#include "gradients/used_set.hpp"
#include "gradients/weight_sum.hpp"

namespace terrace::detail {

/// Implementation of a gradient_reducer: its buckets, and the current iteration.
class reducer_core {
public:
    reducer_core(std::vector<communicator*> comms, std::vector<gradient_parameter> parameters,
                 const gradient_options& o);

    // The functions of gradient_reducer.
    void* gradient(int parameter, element_type type);
    void set_gradient(int parameter, void* gradient);
    const gradient_parameter& known(int parameter) const;
    void set_weight(double weight);
    void drop(std::span<const int> parameters);
    void drop(std::span<const int> parameters, int root);
    void forward_done(std::span<const int> used);
    void ready(int parameter);
    void ready(int parameter, std::span<const std::int64_t> rows, const void* values, std::size_t elements,
               element_type type);
    const row_exchange& sparse(int parameter, element_type type) const;
    bool was_dense(int parameter) const { return sparse(parameter, known(parameter).type).was_dense(); }
    bool poll();
    void finish();
    void join(const std::function<void()>& after_each);
    void broadcast(std::span<const state_tensor> tensors, int root);
    gradient_times statistics();
    int buckets() const noexcept { return buckets_.size(); }
    int bucket_of(int parameter) const {
        known(parameter);
        return buckets_.bucket_of(parameter);
    }
    int rebuilds() const noexcept { return rebuilds_; }
    bool is_broken() const noexcept { return broken_; }
    void give_up() noexcept { broken_ = true; }
    const std::vector<gradient_parameter>& parameter_list() const noexcept { return parameters_; }
    const gradient_options& settings() const noexcept { return options_; }
    const std::shared_ptr<int>& guards() const noexcept { return guards_; }

private:
    /// State of a gradient in the current iteration.
    enum class state : char {
        awaited,
        ready,
        unused,   // on this rank: zeros replace the gradient
        dropped,  // on all ranks
    };

    int parameters() const noexcept { return static_cast<int>(parameters_.size()); }
    communicator& comm() const noexcept { return *comms_.front(); }
    void expect_unbroken() const {
        if (broken_)
            throw usage_error("gradient_reducer: an earlier call failed, and the reducer is broken; make a new one");
    }
    void expect_between(const char* call) const;
    // Breaks the reducer if the action throws, since another rank may wait for the rest of the action.
    template <class Action>
    void or_break(Action action) {
        try {
            action();
        } catch (...) {
            broken_ = true;
            throw;
        }
    }

    // iteration.cpp
    void begin(bool joined = false);
    void expect_awaited(int parameter);
    void say_ready(int parameter);
    void contribute(int parameter, state as);
    void start_full_buckets();
    void move_along();
    void contribute_rest();
    void finish_synchronised();
    void copy_out(int parameter) noexcept;
    void treat_unused();
    void end(bool settle);
    [[noreturn]] void report(int lacking);

    bool asks_for_change();
    void rebuild();

    std::vector<communicator*> comms_;
    std::vector<gradient_parameter> parameters_;
    gradient_options options_;
    gradient_options sizes_;  // options_, with the current sizes of buckets
    bool seeks_sizes_;        // until sizes are chosen
    iteration_clock clock_;
    order_trace trace_;
    std::vector<std::unique_ptr<row_exchange>> sparse_;  // by parameter; null if it is dense
    bucket_set buckets_;
    used_set used_;
    weight_sum weights_;
    std::vector<state> states_;    // by parameter
    std::vector<char> declared_;   // by parameter: declared as used by forward_done
    std::vector<char> dropped_;    // by parameter
    std::vector<std::byte> kept_;  // saved gradients in buckets that this rank does not use; restored if no rank does
    std::vector<std::size_t> kept_offset_;  // by parameter: offset in kept_
    std::vector<int> pending_;              // by bucket: gradients that are awaited
    double weight_ = 1;                     // of the next iteration
    int next_ = 0;                          // next bucket to start
    int last_ = -1;                         // last bucket that is sent; -1: none
    int lacking_ = -1;                      // first parameter whose gradient is missing; -1: none
    int rebuilds_ = 0;
    bool under_way_ = false;  // an iteration has begun
    bool local_ = false;      // the iteration sends nothing
    bool joined_ = false;     // this rank has no data for the iteration
    bool forward_is_done_ = false;
    bool broken_ = false;
    std::shared_ptr<int> guards_ = std::make_shared<int>(0);
};

}  // namespace terrace::detail
