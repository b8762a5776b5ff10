#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <terrace/gradients.hpp>

#include "gradients/bucket_set.hpp"

namespace terrace::detail {

/// The implementation of a gradient_reducer: the iteration that is under way.
class reducer_core {
public:
    reducer_core(std::vector<communicator*> comms, std::vector<gradient_parameter> parameters,
                 const gradient_options& o);
    ~reducer_core();

    // As gradient_reducer has them.
    void* gradient(int parameter, element_type type);
    void set_gradient(int parameter, void* gradient);
    std::int64_t count(int parameter) const { return known(parameter).count; }
    void ready(int parameter);
    bool poll();
    void finish();
    void broadcast(std::span<const state_tensor> tensors, int root);
    int buckets() const noexcept { return buckets_.size(); }
    int bucket_of(int parameter) const;
    const std::shared_ptr<int>& guards() const noexcept { return guards_; }

private:
    static std::size_t at(int i) noexcept { return static_cast<std::size_t>(i); }
    const gradient_parameter& known(int parameter) const;
    void expect_unbroken() const;
    template <class Action>
    void or_break(Action action);

    void begin();
    void contribute(int parameter, bool zero);
    void start_full_buckets();
    int complete_without_gradient();
    bucket_marks wait_for_all();
    void copy_out(int bucket) noexcept;
    void end() noexcept;
    [[noreturn]] void report(int lacking);

    std::vector<communicator*> comms_;
    std::vector<gradient_parameter> parameters_;
    gradient_options options_;
    bucket_set buckets_;
    std::vector<char> is_ready_;  // by parameter
    std::vector<int> pending_;    // by bucket: gradients that are not ready
    int next_ = 0;                // bucket to start
    int lacking_ = -1;            // first parameter whose gradient did not come
    bool under_way_ = false;      // an iteration
    bool local_ = false;          // that sends nothing
    bool broken_ = false;
    std::shared_ptr<int> guards_ = std::make_shared<int>(0);
};

}  // namespace terrace::detail
