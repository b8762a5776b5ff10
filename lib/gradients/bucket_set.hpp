#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <terrace/communicator.hpp>

#include "base/index.hpp"
#include "gradients/bucket_marks.hpp"
#include "gradients/bucket_sizes.hpp"
#include "gradients/iteration_clock.hpp"
#include "gradients/row_exchange.hpp"

namespace terrace::detail {

/// Buckets of a reducer, with their memory and their calls in flight. A sparse gradient is a bucket of its own, without
/// memory here.
class bucket_set {
public:
    /// Allocates memory. Collective over all communicators, which must outlive this.
    /// @param clock counts the calls; must outlive this
    /// @param sparse by parameter; null if it is dense; must outlive this
    /// @param o rounds_on_wire, error_feedback
    bucket_set(std::vector<communicator*> comms, std::span<const gradient_parameter> parameters,
               std::span<const std::unique_ptr<row_exchange>> sparse, iteration_clock& clock,
               std::vector<bucket_layout> layout, const gradient_options& o);

    int size() const noexcept { return static_cast<int>(buckets_.size()); }
    const bucket_layout& layout(int bucket) const noexcept { return buckets_[at(bucket)].what; }
    int bucket_of(int parameter) const noexcept { return places_[at(parameter)].bucket; }
    /// Returns the address of a parameter's gradient in its bucket.
    std::byte* memory_of(int parameter) const noexcept {
        const place& p = places_[at(parameter)];
        const bucket& b = buckets_[at(p.bucket)];
        return b.data + static_cast<std::size_t>(p.offset) * size_of(b.what.type);
    }
    /// Copies a gradient and its rounding errors from other buckets of the same parameters.
    void copy_from(bucket_set& other, int parameter) noexcept;

    /// Returns true if all gradients of a bucket are dropped.
    bool is_dropped(int bucket, std::span<const char> dropped) const noexcept {
        return std::ranges::all_of(layout(bucket).parameters, [&](int p) { return dropped[at(p)] != 0; });
    }
    /// Starts the reduction of a bucket in place.
    /// @param dropped by parameter: gradients that are not sent; the others move together until wait()
    /// @param factor of all gradients, before they are reduced
    void start(int bucket, reduce_op op, const bucket_marks& marks, std::span<const char> dropped, double factor);
    /// Returns true if the bucket after a started one may start. A sparse bucket must have its counts first.
    bool lets_next_start(int bucket) {
        row_exchange* sparse = sparse_in_flight(bucket);
        return sparse == nullptr || sparse->follow_up();
    }
    /// Waits until lets_next_start() is true.
    void wait_for_next_start(int bucket) {
        if (row_exchange* sparse = sparse_in_flight(bucket)) sparse->wait_for_follow_up();
    }
    /// Skips a bucket whose gradients are all dropped, and zeroes its memory.
    void skip(int bucket) noexcept;
    /// Progresses calls. Returns true if all started buckets are complete.
    bool poll();
    /// Waits until a started bucket is complete and its gradients are in their places.
    void wait(int bucket);
    /// Returns the marks of the last bucket for which wait() has returned.
    const bucket_marks& marks() const noexcept { return marks_; }
    /// Resets the buckets for the next iteration.
    void restart() noexcept {
        for (bucket& b : buckets_) b.complete = b.skipped = false;
        marks_ = {};
        started_ = completed_ = 0;
    }

private:
    struct bucket {
        bucket_layout what;
        std::byte* data = nullptr;
        communicator* comm = nullptr;
        row_exchange* sparse = nullptr;  // null: a dense bucket
        std::vector<std::byte> errors;   // rounding errors, as data; empty: not kept
        std::int64_t travelling = 0;     // elements that are sent, without marks
        iteration_clock::time began;
        std::size_t track = 0;  // of the trace
        bool skipped = false;
        bool complete = false;
        request call;
    };
    struct place {
        int bucket = 0;
        std::int64_t offset = 0, count = 0;  // elements
        bool dropped = false;
    };

    static std::size_t room_for(const bucket_layout& what) noexcept;
    row_exchange* sparse_in_flight(int index) const noexcept {
        const bucket& b = buckets_[at(index)];
        return b.skipped ? nullptr : b.sparse;
    }
    std::byte* errors_of(int parameter) noexcept {
        const place& p = places_[at(parameter)];
        bucket& b = buckets_[at(p.bucket)];
        return b.errors.empty() ? nullptr : &b.errors[static_cast<std::size_t>(p.offset) * size_of(b.what.type)];
    }
    void add_errors(bucket& b, std::span<const char> dropped) noexcept;
    void close_up(bucket& b, std::span<const char> dropped) noexcept;
    void spread_out(bucket& b) noexcept;
    void begin_slice(bucket& b);
    void set_complete(int index);

    iteration_clock* clock_;
    bool exact_;
    std::vector<communicator*> comms_;
    std::vector<window<std::byte>> memory_;  // by communicator; outlives buckets_, which wait for calls on it
    std::vector<place> places_;              // by parameter
    std::vector<bucket> buckets_;
    std::vector<char> busy_tracks_;  // of the trace
    bucket_marks marks_;
    int started_ = 0;
    int completed_ = 0;  // all buckets before are complete
};

}  // namespace terrace::detail
