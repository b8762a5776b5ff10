#pragma once

#include <cstdint>
#include <exception>
#include <memory>
#include <optional>

#include "control/call_order/signature.hpp"
#include "executor/call_buffers.hpp"

namespace terrace::detail {

class call_check;
class call_runner;
class failure_state;

/// The states of a call in the queue. A call of one part that may begin at once, outside a group, has no object: it
/// runs, and its request asks the engine. An uneven_call always has an object.
///
///     queued ---> comparing ---> running ---> done
///        ^            |             | |
///        |            +---> failed <+ |
///        +------- another part -------+
enum class call_state : std::uint8_t {
    queued,     ///< others begin before it, or its group is open
    comparing,  ///< ranks compare it, if they have to
    running,    ///< it has begun. It stays so where nothing is left to do when the engine has ended it: is_complete()
    done,       ///< it is complete
    failed,     ///< this rank alone cannot begin or end it, or begin its next part. Calls that differ between ranks do
                ///< not lead here: they break the communicator (failure_state).
};

/// A call of its own, as ranks compare it, that another one consists of; with the caller's buffers.
struct call_part {
    call_shape call;
    const void* send = nullptr;
    void* recv = nullptr;
};

/// What is particular to a kind of call: how it begins, and what is left to do then.
class call_work {
public:
    /// What is left to do once what has begun is complete.
    enum class rest { nothing, an_end, another_part };

    call_work() = default;
    call_work(const call_work&) = delete;
    call_work& operator=(const call_work&) = delete;
    virtual ~call_work() = default;

    /// Begins the call. Returns its number in the engine, 0 if it has nothing to run.
    virtual std::uint64_t issue(call_runner& runner, const call_shape& call) = 0;
    virtual rest left() const noexcept { return rest::nothing; }
    /// Does what is left. Returns the part that comes next, if there is one. @throws usage_error
    virtual std::optional<call_part> go_on() { return {}; }
};

/// A call with its buffers.
class one_call final : public call_work {
public:
    /// @param factor of this rank's elements, of premul_sum
    one_call(const call_buffers& b, double factor) noexcept : buffers_(b), factor_(factor) {}
    std::uint64_t issue(call_runner& runner, const call_shape& call) override;

private:
    call_buffers buffers_;
    double factor_;
};

/// A call in the queue: call_state says which calls are there.
class call {
public:
    /// @param s `comparing` if call_check::start has begun to compare it
    call(call_shape shape, std::unique_ptr<call_work> work, call_state s = call_state::queued)
        : shape_(std::move(shape)), work_(std::move(work)), state_(s) {}

    const call_shape& shape() const noexcept { return shape_; }
    /// Lets it carry another call of `count` elements, which its work has taken, before it begins.
    void carry(std::int64_t count);

    /// Moves it on to its next state, if it can. Returns true if so. Nothing else changes its state.
    /// @throws what breaks the communicator
    bool step(call_runner& runner, call_check& check, failure_state& failure);
    /// Returns true if the calls behind it may begin.
    bool lets_next_begin() const noexcept;
    /// Returns true if nothing is left to do for it but what the engine does.
    bool needs_no_step() const noexcept;
    /// Returns true if it is over.
    bool is_complete(const call_runner& runner) const noexcept;
    /// Returns why it has failed; null if it has not.
    const std::exception_ptr& error() const noexcept { return error_; }

private:
    call_work::rest left() const noexcept { return work_ ? work_->left() : call_work::rest::nothing; }

    call_shape shape_;
    std::unique_ptr<call_work> work_;  // null where nothing is left
    call_state state_;
    std::uint64_t number_ = 0;  // in the engine, of the part that runs
    std::exception_ptr error_;
};

}  // namespace terrace::detail
