#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "api/signature.hpp"
#include "api/uneven_call.hpp"

namespace terrace::detail {

/// A call that the caller has made: its buffers.
struct given_call {
    std::int64_t count = 0;
    const void* send = nullptr;
    void* recv = nullptr;
    void* rounding_errors = nullptr;  ///< of a call that is not joined
};

/// What all ranks begin together: one call, or one that carries several of a group.
struct waiting_start {
    call_shape call;
    double factor = 1;
    std::uint64_t ticket = 0;  ///< of the requests of all parts
    std::vector<given_call> parts;
    std::shared_ptr<uneven_call> uneven = {};      ///< this is a part of it
    bool compared = false;                         ///< ranks have begun to compare it
    std::optional<std::uint64_t> first_part = {};  ///< of an uneven call: its number, until that is complete
    std::exception_ptr error = {};                 ///< why it cannot begin
};

/// Calls of more bytes are not joined; the calls that are joined have no more than this together [bytes].
inline constexpr std::int64_t most_bytes_to_join = 64 * 1024, most_joined_bytes = 1024 * 1024;

/// The calls of a group. Small ones of one collective, type, operation and root are joined, at the place of the first
/// one: alike on all ranks.
class group_calls {
public:
    /// Joins a call with those of its kind, if it is small and there are any that may take it. Its buffers must be
    /// right; all else of it is as theirs.   @returns their ticket; 0 if it is not joined
    std::uint64_t join(const call_shape& call, const given_call& part);
    /// Adds a call, right in itself, that is not joined with those before it.
    void add(waiting_start s, int ranks);

    const std::vector<waiting_start>& list() const noexcept { return list_; }
    std::vector<waiting_start> take();

private:
    struct open_start {
        std::size_t number = 0;    // in list_
        std::int64_t element = 1;  // bytes of one, of all blocks together
        std::int64_t bytes = 0;
    };
    std::vector<waiting_start> list_;
    std::vector<open_start> open_;  // the ones that may take another call: one of a kind
};

/// A group between group_start and group_end.
struct open_group {
    int depth = 0;  ///< one in another
    std::optional<std::uint64_t> number = {};
    group_calls calls = {};
};

/// A call that carries others: each of its blocks holds a block of each of them, side by side.
class joined_call {
public:
    /// @param memory for both buffers, which must stay where it is while this is used
    joined_call(const waiting_start& s, int rank, int ranks, std::vector<std::byte>& memory);

    const void* send() const noexcept { return send_; }
    void* recv() const noexcept { return recv_; }
    /// Copies what the calls give to send().
    void collect() const;
    /// Copies what they get from recv().
    void hand_out() const;

private:
    template <class Copy>
    void for_each_block(int blocks, Copy copy) const;

    collective what_;
    bool is_root_;
    int ranks_;
    std::size_t element_;
    std::int64_t count_;  // of a block
    std::vector<given_call> parts_;
    std::byte *send_, *recv_;
};

}  // namespace terrace::detail
