#pragma once

#include <terrace/export.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <terrace/communicator.hpp>
#include <terrace/types.hpp>

namespace terrace {

class elastic;

namespace detail {
class reducer_core;
}  // namespace detail

/// A parameter whose gradient is reduced over ranks. Name, count, type and row are the same on every rank.
struct gradient_parameter {
    std::string name;                           ///< for error messages; need not be unique
    std::int64_t count = 0;                     ///< elements; may be 0
    element_type type = element_type::float32;  ///< a floating-point type
    /// The caller's gradient: `count` elements in host memory, copied into a bucket and back. Null: the gradient lies
    /// in its bucket (gradient_reducer::gradient()), and nothing is copied.
    void* gradient = nullptr;
    /// If above 0, the gradient is sparse (an embedding), with rows of this many elements; `count` is a multiple of it,
    /// and `gradient` is null. The same on every rank.
    std::int64_t row = 0;
};

/// The rows of a sparse gradient that at least one rank has, and their values. The memory belongs to the reducer.
template <element T>
struct gradient_rows {
    std::span<const std::int64_t> rows;  ///< row numbers, ascending, each once
    std::span<const T> values;           ///< row by row
};

/// Memory that gradient_reducer::broadcast sends: a parameter, or a buffer such as a running mean. Name, count and type
/// are the same on every rank.
struct state_tensor {
    std::string name;                           ///< for error messages
    void* data = nullptr;                       ///< host memory of the caller; may be null if count is 0
    std::int64_t count = 0;                     ///< elements
    element_type type = element_type::float32;  ///< any type
};

/// The meaning of a parameter for which a rank has not called ready() when it calls gradient_reducer::finish().
enum class unused_parameters {
    error,  ///< finish() throws on all ranks
    /// The rank does not use the parameter in this iteration. Ranks exchange which parameters they use, in one small
    /// call beside the last bucket.
    find,
    /// Same as `find` in the first iteration that is reduced. In all later ones each rank must use the same parameters
    /// as in that one: finish() throws if one is missing. These have no extra cost.
    fixed,
};

/// The settings of a gradient_reducer, the same on every rank.
struct gradient_options {
    /// Value of bucket_bytes: rank 0 chooses both sizes once, in the fourth iteration, from the times at which
    /// gradients became ready. It takes the sizes with which the plan predicts the earliest end of the last bucket.
    static constexpr std::int64_t automatic = -1;

    /// Largest size of a bucket [bytes]. A larger gradient has a bucket of its own. 0: every gradient has.
    std::int64_t bucket_bytes = std::int64_t{25} << 20;
    /// Largest size of the first bucket [bytes], small so that communication begins early; never more than
    /// bucket_bytes.
    std::int64_t first_bucket_bytes = std::int64_t{1} << 20;
    /// The operation: avg or sum.
    reduce_op op = reduce_op::avg;
    /// The meaning of gradients that are missing at finish().
    unused_parameters unused = unused_parameters::error;
    /// True: averages are weighted (gradient_reducer::set_weight). Requires avg, and costs one allreduce of 8 bytes at
    /// the start of each iteration. join() requires this.
    bool weighted = false;
    /// A sparse gradient is sent as a dense one when any rank has more than this fraction of its rows, 0 to 1. 0: when
    /// the plan predicts that dense is faster; without predictions the limit is 2 / size(), above which a ring moves
    /// fewer bytes with dense gradients.
    double dense_above = 0;
    /// False: gradients are exact even if the communicator rounds on the wire (options::rounds_on_wire).
    bool rounds_on_wire = true;
    /// True: each rank adds its rounding errors on the wire to its gradients of the next iteration that is reduced.
    /// Costs the memory of all gradients once more, and requires rounds_on_wire. Not for sparse gradients.
    bool error_feedback = false;
};

/// The times of an iteration on one rank [s].
struct gradient_times {
    /// Time from the end of the previous reduced iteration to the call of finish(), without time in the reducer:
    /// forward and backward passes, also of local iterations.
    double compute = 0;
    double communication = 0;  ///< time with buckets in flight, as observed by this rank
    double hidden = 0;         ///< part of `communication` before finish() was called
    double exposed = 0;        ///< time in finish()
    double waiting = 0;        ///< waiting for the slowest rank: `exposed` minus its minimum over all ranks
};

/// A guard of gradient_reducer::no_sync(): iterations are local while it exists.
class [[nodiscard]] TERRACE_API local_iterations {
public:
    local_iterations(local_iterations&& other) noexcept = default;
    local_iterations& operator=(local_iterations&& other) noexcept = delete;
    ~local_iterations();

private:
    friend class gradient_reducer;
    explicit local_iterations(std::shared_ptr<int> guards) noexcept;

    std::shared_ptr<int> guards_;  // number of guards that exist; null if moved from
};

/// Reduces the gradients of a model over all ranks while the backward pass still runs. Parameters are identified by
/// their index in the list that is passed to the constructor.
///
/// An iteration is one call of ready(p) for each parameter, in any order, which may differ between ranks, and then
/// finish(). Gradients of one type share *buckets*, in reverse order of the list, since backward passes begin at the
/// last layer. A bucket is reduced once all its gradients are ready and the bucket before it has been started, so all
/// ranks make the same calls in the same order. After the first iteration, buckets follow the order in which gradients
/// became ready on rank 0. They change again if another order repeats in several iterations (rebuilds()).
///
/// All ranks of the communicators create and use the reducer together, in the thread that uses the communicators. The
/// communicators must outlive the reducer, and have the same ranks in the same order. They may be used for other calls
/// between finish() and the next ready(). Calls make progress while that thread is in the reducer (ready, poll,
/// finish), or at any time with options::progress_thread. Move-only; a moved-from reducer may only be assigned to or
/// destroyed.
///
/// All functions throw
///
/// * usage_error if a call is invalid; nothing has changed then,
/// * the exceptions of communicator's collectives; the reducer is then broken, and each later call throws usage_error.
class TERRACE_API gradient_reducer {
public:
    /// Compares the list and the options over all ranks, lays out the buckets, and allocates their memory in windows.
    /// @param comm must outlive the reducer
    /// @throws usage_error on all ranks if list or options differ between ranks, or are invalid on any rank
    gradient_reducer(communicator& comm, std::vector<gradient_parameter> parameters, const gradient_options& o = {});
    /// Does the same over several communicators of the same ranks. Bucket i runs on communicator i modulo their number,
    /// so all of them have buckets in flight.
    /// @param comms at least one; they must outlive the reducer
    gradient_reducer(std::span<communicator* const> comms, std::vector<gradient_parameter> parameters,
                     const gradient_options& o = {});
    gradient_reducer(gradient_reducer&&) noexcept;
    gradient_reducer& operator=(gradient_reducer&&) noexcept;
    /// Waits for calls in flight, if there are any. Local. The memory of a broken reducer is never freed, since a
    /// network may still use it.
    ~gradient_reducer();

    /// Returns the gradient of a parameter: the caller's memory, or its place in a bucket. That place is zeroed at the
    /// start, belongs to the reducer, and is valid until the next finish() returns. Do not access it between
    /// ready(parameter) and finish(). @throws usage_error if there is no dense parameter of this type
    template <element T>
    std::span<T> gradient(int parameter) {
        return {static_cast<T*>(gradient(parameter, element_type_of<T>)), static_cast<std::size_t>(count(parameter))};
    }
    /// Returns the same address, untyped.
    void* gradient(int parameter, element_type type);
    /// Sets the address of the caller's gradient of a parameter from now on. Local.
    /// @param gradient not null   @throws usage_error if the gradient lies in its bucket, or is in use
    void set_gradient(int parameter, void* gradient);
    /// Returns the number of elements of a parameter. @throws usage_error if it does not exist
    std::int64_t count(int parameter) const;

    /// Sets the weight of this rank, from the next iteration that is reduced on, for example the number of samples in
    /// its batch. It is 1 at first. A result is the sum of weight times gradient over the sum of weights. @param weight
    /// above 0, finite   @throws usage_error unless gradient_options::weighted is set, and between ready() and finish()
    void set_weight(double weight);
    /// Leaves parameters out of the next iteration that is reduced: their gradients are not sent, and ready() must not
    /// be called for them. The caller's gradient is unchanged; one in its bucket is zeros afterwards. All ranks pass
    /// the same list, for example by random numbers with one seed. Not allowed while a rank has joined.
    /// @throws usage_error between ready() and finish()
    void drop(std::span<const int> parameters);
    /// Does the same with the list of rank `root`; the lists of other ranks are ignored. Collective: a broadcast.
    void drop(std::span<const int> parameters, int root);
    /// Announces the parameters that this rank uses in this iteration, if options.unused is `find`: buckets then do not
    /// wait for the others until finish(). At most once in an iteration; not all ranks need to call it.
    /// @throws usage_error if ready() was called for a parameter outside `used`
    void forward_done(std::span<const int> used);
    /// Marks the gradient of a parameter as complete on this rank, and starts each bucket whose turn has come. The
    /// caller's gradient has been copied when this returns; a gradient in its bucket must not be accessed until
    /// finish() returns. @throws usage_error if the parameter is already marked in this iteration
    void ready(int parameter);
    /// Does the same for a sparse gradient. Both ranges are copied before this returns. In local iterations rows are
    /// added up.
    /// @param rows row numbers from 0, in any order; the values of repeated rows are added up
    /// @param values rows.size() times gradient_parameter::row elements, row by row
    template <element T>
    void ready(int parameter, std::span<const std::int64_t> rows, std::span<const T> values) {
        ready(parameter, rows, values.data(), values.size(), element_type_of<T>);
    }
    /// Does the same with untyped values. @param elements number of elements in values
    void ready(int parameter, std::span<const std::int64_t> rows, const void* values, std::size_t elements,
               element_type type);
    /// Returns the result of a sparse gradient, with the same bits on all ranks; empty if it was dropped. Valid until
    /// the next iteration that is reduced begins. @throws usage_error if the parameter is dense, or of another type
    template <element T>
    gradient_rows<T> rows(int parameter) const {
        const auto [numbers, values] = rows(parameter, element_type_of<T>);
        return {numbers, {static_cast<const T*>(values), numbers.size() * static_cast<std::size_t>(row(parameter))}};
    }
    /// Returns the same, untyped: the row numbers, and the values row by row.
    std::pair<std::span<const std::int64_t>, const void*> rows(int parameter, element_type type) const;
    /// Returns the elements of a row; 0 if the parameter is dense. @throws usage_error if it does not exist
    std::int64_t row(int parameter) const;
    /// Returns true if a sparse gradient was sent as a dense one in the last reduced iteration.
    bool was_dense(int parameter) const;
    /// Makes progress on calls in flight. Returns true if all started buckets are complete. Call this now and then in a
    /// long backward pass, unless options::progress_thread is set.
    bool poll();
    /// Ends the iteration: returns when all gradients are reduced. Until then the caller's gradients are undefined. A
    /// parameter that a rank does not use counts as zeros there; one that no rank uses is unchanged.
    /// @throws usage_error on all ranks if a rank lacks a gradient, naming that rank and the first such parameter. The
    /// gradients are then undefined, and the reducer is ready for the next iteration
    void finish();
    /// Takes part in the iterations of the other ranks, with zeros and weight 0, until all ranks have called join():
    /// for a rank that has no data left. Gradients get the results of the other ranks.
    /// @param after_each called after each such iteration, for the step of the optimiser, which keeps parameters equal
    /// on all ranks; may be null
    /// @throws as finish(); usage_error unless gradient_options::weighted is set
    void join(const std::function<void()>& after_each = nullptr);

    /// Continues with the present members of an elastic job. Call this in the function of elastic::on_change. An
    /// iteration under way is abandoned, the order of buckets is determined anew, and errors kept by error_feedback are
    /// lost. Gradients in buckets move to other addresses, and are zeros. Collective: meanwhile a new member makes a
    /// reducer with the same parameters and options. @throws as the constructor; the reducer is then broken
    void move_to(elastic& job);

    /// Keeps iterations local while the result exists: ready() and finish() send nothing, and the caller adds up the
    /// gradients. The first iteration afterwards reduces the sums; a parameter counts as used if any of these
    /// iterations uses it. May be nested. Whether an iteration is local is fixed when it begins. All ranks must do the
    /// same.
    local_iterations no_sync();

    /// Copies the tensors of rank `root` to all ranks: the state at the start, or buffers before a forward pass. Small
    /// tensors are sent together. Compares names, counts and types over all ranks first. Not allowed between ready()
    /// and finish(). @throws usage_error on all ranks if ranks differ, or if an argument is invalid on any rank
    void broadcast(std::span<const state_tensor> tensors, int root = 0);

    /// Returns the times of the last iteration that was reduced. Collective: an allreduce of 8 bytes.
    /// @throws usage_error if there was none, and between ready() and finish()
    gradient_times statistics();

    /// Returns the number of buckets.
    int buckets() const noexcept;
    /// Returns the bucket of a parameter, numbered from 0 in starting order. @throws usage_error if there is none
    int bucket_of(int parameter) const;

    /// Returns how often the buckets have been rebuilt in another order.
    int rebuilds() const noexcept;

private:
    std::unique_ptr<detail::reducer_core> core_;
};

}  // namespace terrace
