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

/// A parameter whose gradient is reduced over ranks. Name, count and type are the same on every rank.
struct gradient_parameter {
    std::string name;                           ///< for messages; need not be unique
    std::int64_t count = 0;                     ///< elements; may be 0
    element_type type = element_type::float32;  ///< a floating-point type
    /// The caller's gradient of `count` elements on the host, which is copied into a bucket and back. Null: the
    /// gradient lives in its bucket, and nothing is copied: gradient_reducer::gradient().
    void* gradient = nullptr;
    /// Above 0: the gradient is sparse, with rows of so many elements, of which `count` is a multiple (an embedding).
    /// `gradient` is null then. The same on every rank.
    std::int64_t row = 0;
};

/// The rows of a sparse gradient that any rank has, and their values. Belongs to the reducer.
template <element T>
struct gradient_rows {
    std::span<const std::int64_t> rows;  ///< ascending, each once
    std::span<const T> values;           ///< of one row after the other
};

/// Memory that gradient_reducer::broadcast sends: a parameter, or a buffer such as a running mean. Name, count and type
/// are the same on every rank.
struct state_tensor {
    std::string name;                           ///< for messages
    void* data = nullptr;                       ///< host memory of the caller; may be null if count is 0
    std::int64_t count = 0;                     ///< elements
    element_type type = element_type::float32;  ///< any type
};

/// What it means that a rank has not said ready(p) for a parameter when it calls gradient_reducer::finish.
enum class unused_parameters {
    error,  ///< finish() throws on all ranks
    /// This rank does not use the parameter in this iteration. Ranks tell one another what they use, in one small call
    /// that runs beside the last bucket.
    find,
    /// As find in the first iteration that is reduced; in all later ones each rank uses the same parameters as in that
    /// one, and finish() throws where one is missing. Costs nothing then.
    fixed,
};

/// The settings of a gradient_reducer, the same on every rank.
struct gradient_options {
    /// For bucket_bytes: rank 0 measures when gradients become ready, and chooses both sizes, once, in the fourth
    /// iteration: those with which the plan predicts that the last bucket is complete first.
    static constexpr std::int64_t automatic = -1;

    /// The most bytes of a bucket. A larger gradient has a bucket of its own. 0: each gradient has one of its own.
    std::int64_t bucket_bytes = std::int64_t{25} << 20;
    /// The most bytes of the first bucket, which is small so that communication begins early; never more than
    /// bucket_bytes.
    std::int64_t first_bucket_bytes = std::int64_t{1} << 20;
    /// avg or sum.
    reduce_op op = reduce_op::avg;
    /// What may be missing at finish().
    unused_parameters unused = unused_parameters::error;
    /// True if the average is by weights: gradient_reducer::set_weight. Requires avg, and costs one allreduce of 8
    /// bytes at the start of each iteration. join() requires it.
    bool weighted = false;
    /// The part of all rows that one rank must have of a sparse gradient, in an iteration, so that it travels as a
    /// dense one: 0 to 1. 0: it does where the plan predicts that this is faster; without predictions from 2 / size()
    /// on, where a ring moves fewer bytes so.
    double dense_above = 0;
    /// False if gradients are exact even where the communicator rounds on the wire (options::rounds_on_wire).
    bool rounds_on_wire = true;
    /// True if what is rounded away on the wire is added to the gradients of the next iteration that is reduced, on the
    /// rank that has rounded it. Costs the memory of all gradients once more. Sparse gradients have no part in it.
    bool error_feedback = false;
};

/// Where the time of an iteration went, on one rank [s].
struct gradient_times {
    /// From the end of the last iteration that was reduced to the call of finish(), without the time spent in the
    /// reducer: forward and backward passes, local iterations too.
    double compute = 0;
    double communication = 0;  ///< while buckets were in flight, as far as this rank has seen
    double hidden = 0;         ///< of that, before finish() was called
    double exposed = 0;        ///< in finish()
    double waiting = 0;        ///< of that, until the slowest rank had come: exposed, minus the least of any rank
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
/// the same calls in the same order. After the first iteration the buckets follow the order that rank 0 saw, and again
/// where that order changes for some iterations in a row (rebuilds()).
///
/// Created and used by all ranks of the communicators together, by the thread that uses the communicators. These must
/// outlive the reducer, may be used for other calls between finish() and the next ready(), and must have the same ranks
/// in the same order. Calls move along while that thread is in the reducer (ready, poll, finish), or at any time with
/// options::progress_thread. Move-only; a moved-from reducer may only be assigned to or destroyed.
///
/// All functions throw
///
/// * usage_error where a call is wrong in itself; nothing has changed then,
/// * what the collectives of communicator throw; the reducer is broken then, and each later call throws
///   usage_error.
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
    /// Local. Waits for calls in flight, if there are any. The memory of a broken reducer is never freed, since a
    /// network may still use it.
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

    /// Sets the weight of this rank, from the next iteration that is reduced on: the number of samples in its batch,
    /// where batches differ. At first it is 1. Results are then the sum of weight times gradient over the sum of
    /// weights. @param weight above 0   @throws usage_error unless gradient_options::weighted is set, between ready()
    /// and finish()
    void set_weight(double weight);
    /// Drops parameters from the next iteration that is reduced: their gradients do not travel, and ready() is not to
    /// be called for them. The caller's gradient stays as it is; one that lives in its bucket is zeros afterwards. The
    /// same on all ranks, for example by random numbers of one seed. Not while a rank has joined.
    /// @throws usage_error between ready() and finish()
    void drop(std::span<const int> parameters);
    /// Does the same with what rank `root` passes; other ranks may pass anything. Collective: a broadcast.
    void drop(std::span<const int> parameters, int root);
    /// Says which parameters this rank uses in this iteration, if options.unused is find: the others do not hold up
    /// their buckets until finish(). May be called once in an iteration; ranks need not all call it.
    /// @throws usage_error if ready() was called for another one
    void forward_done(std::span<const int> used);
    /// Says that the gradient of a parameter is complete on this rank, and starts each bucket whose turn has come. The
    /// caller's gradient has been copied when this returns; one that lives in its bucket must not be touched until
    /// finish() returns. @throws usage_error if the parameter has been said to be ready in this iteration
    void ready(int parameter);
    /// Does the same for a sparse gradient. Both ranges are copied before this returns. In local iterations rows add
    /// up.
    /// @param rows from 0, in any order; may repeat, and their values are then added up
    /// @param values as many as rows.size() times gradient_parameter::row
    template <element T>
    void ready(int parameter, std::span<const std::int64_t> rows, std::span<const T> values) {
        ready(parameter, rows, values.data(), values.size(), element_type_of<T>);
    }
    /// Does the same by address. @param elements in values
    void ready(int parameter, std::span<const std::int64_t> rows, const void* values, std::size_t elements,
               element_type type);
    /// Returns the result of a sparse gradient, with the same bits on all ranks; empty if it was dropped. Valid until
    /// the next iteration that is reduced begins. @throws usage_error if the parameter is dense, or of another type
    template <element T>
    gradient_rows<T> rows(int parameter) const {
        const auto [numbers, values] = rows(parameter, element_type_of<T>);
        return {numbers, {static_cast<const T*>(values), numbers.size() * static_cast<std::size_t>(row(parameter))}};
    }
    /// Does the same by address: the row numbers, and the values of one row after the other.
    std::pair<std::span<const std::int64_t>, const void*> rows(int parameter, element_type type) const;
    /// Returns the elements of a row; 0 if the parameter is dense. @throws usage_error if there is none
    std::int64_t row(int parameter) const;
    /// Returns true if the values of a sparse gradient travelled as a dense one the last time.
    bool was_dense(int parameter) const;
    /// Moves calls along. Returns true if all buckets that were started are complete. To be called now and then in a
    /// long backward pass, unless options::progress_thread is set.
    bool poll();
    /// Ends the iteration: returns when all gradients are reduced. Until then all gradients of the caller are
    /// undefined. A parameter that a rank does not use counts as zeros there; one that no rank uses stays as it was.
    /// @throws usage_error on all ranks if a rank lacks a gradient, naming that rank and the first such parameter. The
    /// gradients are undefined then, and the reducer is ready for the next iteration
    void finish();
    /// Takes part in the iterations of the other ranks, with zeros and weight 0, until all ranks have called join():
    /// for a rank that has no data left. Gradients have the results of the other ranks.
    /// @param after_each called after each such iteration, for the step of the optimiser, so that parameters stay equal
    /// on all ranks; may be null
    /// @throws as finish(); usage_error unless gradient_options::weighted is set
    void join(const std::function<void()>& after_each = nullptr);

    /// Goes on with the members that an elastic job has now, in a function that elastic::on_change has set. An
    /// iteration under way is given up, the order of buckets is found anew, and what error_feedback has kept is
    /// dropped. Gradients that live in their buckets move, and are zeros. Collective: a member that has joined makes a
    /// reducer meanwhile, with the same parameters and options. @throws as the constructor; the reducer is broken then
    void move_to(elastic& job);

    /// Keeps iterations local, for as long as the result exists: ready() and finish() then send nothing, and gradients
    /// add up where the caller adds them. The first iteration after it reduces the sums; a parameter counts as used if
    /// any of these iterations uses it. May be nested. What holds when an iteration begins holds until its finish(). On
    /// all ranks alike.
    local_iterations no_sync();

    /// Copies the tensors of rank `root` to all ranks: the state at the start, or buffers before a forward pass. Small
    /// tensors travel together. Compares the names, counts and types over all ranks first. Not between ready() and
    /// finish(). @throws usage_error on all ranks if ranks differ, or if they are wrong on any rank
    void broadcast(std::span<const state_tensor> tensors, int root = 0);

    /// Returns the times of the last iteration that was reduced. Collective: an allreduce of 8 bytes.
    /// @throws usage_error if there was none, and between ready() and finish()
    gradient_times statistics();

    /// Returns the number of buckets.
    int buckets() const noexcept;
    /// Returns the bucket of a parameter, from 0 in the order in which they start. @throws usage_error if there is none
    int bucket_of(int parameter) const;

    /// Returns how often the buckets have followed another order.
    int rebuilds() const noexcept;

private:
    std::unique_ptr<detail::reducer_core> core_;
};

}  // namespace terrace
