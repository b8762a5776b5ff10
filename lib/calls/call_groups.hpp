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

/// Calls of more bytes are not joined; the calls that are joined have no more than this together [bytes].
inline constexpr std::int64_t most_bytes_to_join = 64 * 1024, most_joined_bytes = 1024 * 1024;

/// Returns true if such a call may be joined with others of its kind, alike on all ranks.
bool may_join(const call_shape& call, int ranks);

/// Calls of a group that begin as one, whose blocks each hold a block of each of them, side by side.
class joined_calls final : public call_work {
public:
    explicit joined_calls(const call_piece& first) : parts_{first} {}
    void add(const call_piece& part) {
        constexpr std::size_t usual_calls = 64;  // of a joined one: room for so many at once
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
    // Where the vectors are copied, once that has begun.
    std::size_t element_ = 1;  // bytes
    int blocks_got_ = 0;
    const std::byte* recv_ = nullptr;  // null: they are not copied
};

/// A group between group_start and group_end, and its calls. Small ones of one collective, type, operation and root are
/// joined, at the place of the first one: alike on all ranks.
class open_group {
public:
    int depth = 0;  ///< one in another
    std::optional<std::uint64_t> number = {};

    /// Joins a call with those of its kind, if it is small and there are any that may take it. Its buffers must be
    /// right; all else of it is as theirs.   @returns their ticket; 0 if it is not joined
    std::uint64_t join(const call_shape& call, const call_piece& part, int ranks);
    /// Adds a call, right in itself, that is not joined with those before it.
    /// @param made the call, which stays where it is   @param work its work, if others may join it
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
    std::vector<open_start> open_;  // the ones that may take another call: one of a kind
};

/// The groups of a communicator: those that threads have open, and those with numbers that begin in the order of these,
/// 0, 1, 2, ..., in whatever order this rank's threads make them.
class call_groups {
public:
    /// @param by_thread a group is the thread's that opened it; else the process has one at a time
    explicit call_groups(bool by_thread) noexcept : by_thread_(by_thread) {}

    /// Returns the group that the caller has open; null if there is none.
    open_group* own() noexcept {
        if (open_.empty()) return nullptr;
        const auto found = open_.find(caller());
        return found == open_.end() ? nullptr : &found->second;
    }
    /// @throws usage_error if the number is in use already, or the group is in another one and has a number
    void start(std::optional<std::uint64_t> number);
    /// Returns the calls that may begin now, by ticket: of this group, or of groups whose turn has come.
    /// @throws usage_error where there is no group
    std::vector<std::uint64_t> end();

    /// Returns time_since_asked() of the group whose turn it is, while others wait for it; else 0.
    std::chrono::duration<double> age() noexcept;
    /// Adds what groups that have ended wait for.
    void add_waits(waiting& all) const;

private:
    std::thread::id caller() const noexcept { return by_thread_ ? std::this_thread::get_id() : std::thread::id(); }

    bool by_thread_;
    std::map<std::thread::id, open_group> open_;  // by caller()
    std::uint64_t next_ = 0;
    std::map<std::uint64_t, std::optional<std::vector<std::uint64_t>>> numbered_;  // null: open
    std::chrono::steady_clock::time_point since_{};
};

}  // namespace terrace::detail
