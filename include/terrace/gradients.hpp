#pragma once

#include <terrace/export.hpp>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <terrace/communicator.hpp>
#include <terrace/types.hpp>

namespace terrace {

namespace detail {
class reducer_core;
}  // namespace detail

/// A parameter whose gradient is reduced over ranks. Name, count and type are the same on every rank.
struct gradient_parameter {
    std::string name;                           ///< for messages; need not be unique
    std::int64_t count = 0;                     ///< elements; may be 0
    element_type type = element_type::float32;  ///< a floating-point type
    /// The caller's gradient of `count` elements on the host, which is copied into a bucket and back. Null: the
    /// gradient lives in its bucket, and nothing is copied: gradient_reducer::gradient().
    void* gradient = nullptr;
};

/// Memory that gradient_reducer::broadcast sends: a parameter, or a buffer such as a running mean. Name, count and type
/// are the same on every rank.
struct state_tensor {
    std::string name;                           ///< for messages
    void* data = nullptr;                       ///< host memory of the caller; may be null if count is 0
    std::int64_t count = 0;                     ///< elements
    element_type type = element_type::float32;  ///< any type
};

/// The settings of a gradient_reducer, the same on every rank.
struct gradient_options {
    /// The most bytes of a bucket. A larger gradient has a bucket of its own. 0: each gradient has one of its own.
    std::int64_t bucket_bytes = std::int64_t{25} << 20;
    /// The most bytes of the first bucket, which is small so that communication begins early; never more than
    /// bucket_bytes.
    std::int64_t first_bucket_bytes = std::int64_t{1} << 20;
    /// avg or sum.
    reduce_op op = reduce_op::avg;
};

/// Keeps iterations local as long as it exists: gradient_reducer::no_sync.
class [[nodiscard]] TERRACE_API local_iterations {
public:
    local_iterations(local_iterations&& other) noexcept = default;
    local_iterations& operator=(local_iterations&& other) noexcept = delete;
    ~local_iterations();

private:
    friend class gradient_reducer;
    explicit local_iterations(std::shared_ptr<int> guards) noexcept;

    std::shared_ptr<int> guards_;  // how many exist; null when moved from
};

/// Reduces the gradients of a model over all ranks while the backward pass still runs. Parameters are named by their
/// index in the list that the reducer was made from.
///
/// An iteration is: ready(p) once for each parameter, in any order, which may differ between ranks; then finish().
/// Gradients of one type share *buckets*, in reverse order of the list, since backward passes begin at the last layer.
/// A bucket is reduced when all its gradients are ready and the bucket before it has been started; so all ranks make
/// the same calls in the same order.
///
/// Created and used by all ranks of the communicators together, by the thread that uses the communicators. These must
/// outlive the reducer, may be used for other calls between finish() and the next ready(), and must have the same ranks
/// in the same order. Calls move along while that thread is in the reducer (ready, poll, finish), or at any time with
/// options::progress_thread. Move-only; a moved-from reducer may only be assigned to or destroyed.
///
/// All functions throw
///
/// * usage_error where a call is wrong in itself; nothing has changed then,
/// * usage_error, timeout_error and transport_error as the collectives of communicator do; the reducer is broken then,
///   and each later call throws usage_error.
class TERRACE_API gradient_reducer {
public:
    /// Compares the list and the options over all ranks, lays out the buckets, and allocates their memory in windows.
    /// @param comm must outlive the reducer
    /// @throws usage_error on all ranks if they differ, or if they are wrong on any rank
    gradient_reducer(communicator& comm, std::vector<gradient_parameter> parameters, const gradient_options& o = {});
    /// Does the same over several communicators of the same ranks: bucket i runs on communicator i modulo their number,
    /// so that buckets are in flight on all of them.
    /// @param comms at least one; they must outlive the reducer
    gradient_reducer(std::span<communicator* const> comms, std::vector<gradient_parameter> parameters,
                     const gradient_options& o = {});
    gradient_reducer(gradient_reducer&&) noexcept;
    gradient_reducer& operator=(gradient_reducer&&) noexcept;
    /// Local. Waits for calls in flight, if there are any.
    ~gradient_reducer();

    /// Returns the gradient of a parameter: the caller's own memory, or its place in its bucket, which is zeroed at the
    /// start, belongs to the reducer, and is valid until the next finish() returns. Not to be touched between
    /// ready(parameter) and finish(). @throws usage_error if there is no such parameter, or it has another type
    template <element T>
    std::span<T> gradient(int parameter) {
        return {static_cast<T*>(gradient(parameter, element_type_of<T>)), static_cast<std::size_t>(count(parameter))};
    }
    /// Does the same by address.
    void* gradient(int parameter, element_type type);
    /// Changes where the caller's gradient of a parameter lies, until it is changed again. Local.
    /// @param gradient not null   @throws usage_error if the gradient lives in its bucket, or is in use
    void set_gradient(int parameter, void* gradient);
    /// Returns the number of elements of a parameter. @throws usage_error if there is none
    std::int64_t count(int parameter) const;

    /// Says that the gradient of a parameter is complete on this rank, and starts each bucket whose turn has come. The
    /// caller's gradient has been copied when this returns; one that lives in its bucket must not be touched until
    /// finish() returns. @throws usage_error if the parameter has been said to be ready in this iteration
    void ready(int parameter);
    /// Moves calls along. Returns true if all buckets that were started are complete. To be called now and then in a
    /// long backward pass, unless options::progress_thread is set.
    bool poll();
    /// Ends the iteration: returns when all gradients are reduced. Until then all gradients of the caller are
    /// undefined.
    /// @throws usage_error on all ranks if a rank has not said ready(p) for each parameter, naming that rank and the
    /// first such parameter. The gradients are undefined then, and the reducer is ready for the next iteration
    void finish();

    /// Keeps iterations local, for as long as the result exists: ready() and finish() then send nothing, and gradients
    /// add up where the caller adds them. The first iteration after it reduces the sums. May be nested. What holds when
    /// an iteration begins holds until its finish(). On all ranks alike.
    local_iterations no_sync();

    /// Copies the tensors of rank `root` to all ranks: the state at the start, or buffers before a forward pass. Small
    /// tensors travel together. Compares the names, counts and types over all ranks first. Not between ready() and
    /// finish(). @throws usage_error on all ranks if ranks differ, or if they are wrong on any rank
    void broadcast(std::span<const state_tensor> tensors, int root = 0);

    /// Returns the number of buckets.
    int buckets() const noexcept;
    /// Returns the bucket of a parameter, from 0 in the order in which they start. @throws usage_error if there is none
    int bucket_of(int parameter) const;

private:
    std::unique_ptr<detail::reducer_core> core_;
};

}  // namespace terrace
