#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <thread>
#include <vector>

#include "calls/call.hpp"
#include "executor/engine.hpp"
#include "transport/call_pieces.hpp"

namespace terrace::detail {

/// Largest size of a call that is joined with others, and of joined calls together [bytes].
inline constexpr std::int64_t most_bytes_to_join = 64 * 1024, most_joined_bytes = 1024 * 1024;

/// Returns true if such a call may be joined with others of the same kind. All ranks get the same result.
bool may_join(const call_shape& call, int ranks);

/// Calls of a group that begin as one call. Its blocks each consist of one block of each joined call, side by side.
class joined_calls final : public call_work {
public:
    explicit joined_calls(const call_piece& first) : parts_{first} {}
    void add(const call_piece& part) {
        constexpr std::size_t usual_calls = 64;  // the first join reserves memory for this many
        if (parts_.size() == 1) parts_.reserve(usual_calls);
        parts_.push_back(part);
    }

    std::uint64_t issue(call_runner& runner, const full_call& c) override {
        return parts_.size() > 1 ? begin_copied(runner, c.shape) : call_work::issue(runner, c);
    }
    rest left() const noexcept override { return recv_ != nullptr ? rest::an_end : rest::nothing; }
    std::optional<full_call> go_on() override;

private:
    template <class Copy>
    void for_each_block(int blocks, Copy copy) const;
    std::uint64_t begin_copied(call_runner& runner, const call_shape& call);

    std::vector<call_piece> parts_;
    // Set when copied calls begin.
    std::size_t element_ = 1;  // bytes
    int blocks_got_ = 0;
    const std::byte* recv_ = nullptr;  // memory of the results; null: the calls are not copied
};

/// A group between group_start and group_end, and its calls. Small calls with equal collective, type, operation and
/// root are joined, at the place of the first one. All ranks join the same calls.
class open_group {
public:
    int depth = 0;  ///< calls of group_start without their group_end
    std::optional<std::uint64_t> number = {};

    /// Joins a small call with earlier calls of the same kind, if there is room. Only its buffers must be known to be
    /// valid; its other arguments are as valid as theirs.   @returns the ticket of these calls; 0 if not joined
    std::uint64_t join(const call_shape& call, const call_piece& part, int ranks);
    /// Adds a valid call that is not joined with earlier ones.
    /// @param made the call, which must not move   @param work its work, if later calls may join it
    void add(std::uint64_t ticket, call& made, joined_calls* work, int ranks) {
        if (work != nullptr) open_.push_back({ticket, &made, work, bytes_of(made.shape(), ranks)});
        list_.push_back(ticket);
    }

    const std::vector<std::uint64_t>& list() const noexcept { return list_; }

private:
    struct open_start {
        std::uint64_t ticket = 0;
        call* made = nullptr;
        joined_calls* work = nullptr;
        std::int64_t bytes = 0;
    };
    std::vector<std::uint64_t> list_;
    std::vector<open_start> open_;  // calls that others may join, one of each kind
};

/// The groups of a communicator: open groups of threads, and groups with numbers. The latter begin in the order of
/// their numbers 0, 1, 2, ..., in whatever order this rank's threads make them.
class call_groups {
public:
    /// @param by_thread a group belongs to the thread that opened it; otherwise the process has one group at a time
    explicit call_groups(bool by_thread) noexcept : by_thread_(by_thread) {}

    /// Returns the open group of the caller; null if there is none.
    open_group* own() noexcept {
        if (open_.empty()) return nullptr;
        const auto found = open_.find(caller());
        return found == open_.end() ? nullptr : &found->second;
    }
    /// @throws usage_error if the number has been used, or if a group with a number is inside another group
    void start(std::optional<std::uint64_t> number);
    /// Returns the tickets of calls that may begin now: of this group, or of groups whose turn has come.
    /// @throws usage_error if there is no group
    std::vector<std::uint64_t> end();

    /// Returns time_since_first_call() of the next group in the order, while ended groups wait for it; otherwise 0.
    std::chrono::duration<double> age() noexcept;
    /// Adds the waits of groups that have ended.
    void add_waits(waiting& all) const;

private:
    std::thread::id caller() const noexcept { return by_thread_ ? std::this_thread::get_id() : std::thread::id(); }

    bool by_thread_;
    std::map<std::thread::id, open_group> open_;  // by caller()
    std::uint64_t next_ = 0;
    std::map<std::uint64_t, std::optional<std::vector<std::uint64_t>>> numbered_;  // tickets; null: open
    std::chrono::steady_clock::time_point since_{};
};

}  // namespace terrace::detail
