#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <terrace/communicator.hpp>

#include "gradients/layout.hpp"

namespace terrace::detail {

/// What one rank says to all others in the last bucket that it starts, at no cost: the sum over ranks of each.
struct bucket_marks {
    bool lacks_gradient = false;
};

/// The buckets of a reducer, their memory, and their calls in flight. Behind the gradients of a bucket lie its marks,
/// which are reduced with it.
class bucket_set {
public:
    /// Allocates memory. Collective over all communicators, which must outlive this.
    bucket_set(std::vector<communicator*> comms, std::span<const gradient_parameter> parameters,
               std::vector<bucket_layout> layout);

    int size() const noexcept { return static_cast<int>(buckets_.size()); }
    const bucket_layout& layout(int bucket) const noexcept { return buckets_[at(bucket)].what; }
    int bucket_of(int parameter) const noexcept { return places_[at(parameter)].bucket; }
    /// Returns where the gradient of a parameter lies in its bucket.
    std::byte* memory_of(int parameter) const noexcept;

    /// Starts the reduction of a bucket in place.
    void start(int bucket, reduce_op op, const bucket_marks& marks);
    /// Moves calls along. Returns true if all buckets that were started are complete.
    bool poll();
    /// Returns once a bucket that was started is complete.
    void wait(int bucket);
    /// Returns the marks of a complete bucket, of all ranks together.
    bucket_marks marks(int bucket) const noexcept;
    /// Forgets which buckets were started: for the next iteration.
    void restart() noexcept;
    /// Leaves the memory to calls that may still use it, for the rest of the process: after a failure.
    void abandon() noexcept;

private:
    struct bucket {
        bucket_layout what;
        std::byte* data = nullptr;
        communicator* comm = nullptr;
        request call;
        bool complete = false;
    };
    struct place {
        int bucket = 0;
        std::int64_t offset = 0;  // bytes
    };
    static constexpr std::int64_t marks_of_bucket = 1;  // elements

    static std::size_t at(int i) noexcept { return static_cast<std::size_t>(i); }
    static std::size_t room_for(const bucket_layout& what) noexcept;
    bool poll(communicator& comm);

    std::vector<communicator*> comms_;
    std::vector<window<std::byte>> memory_;  // by communicator; before buckets_, which wait for calls on it
    std::vector<place> places_;              // by parameter
    std::vector<bucket> buckets_;
    int started_ = 0;
    int completed_ = 0;  // all before are complete
};

}  // namespace terrace::detail
