#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <list>
#include <map>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include <terrace/message.hpp>
#include <terrace/types.hpp>

#include "control/messages/message_operations.hpp"
#include "control/router.hpp"
#include "executor/engine.hpp"

namespace terrace::detail {

/// Slots of an endpoint for callers' messages. Each of the four ways has its own pool, so none waits for another.
template <class Copied>
class message_slots {
public:
    enum pool : std::size_t { eager_out, eager_in, pieces_out, pieces_in, pools };
    static constexpr std::array<int, pools> sizes{32, 32, 64, 64};
    static constexpr int all = std::accumulate(sizes.begin(), sizes.end(), 0);

    /// Purpose of a slot in use.
    struct use {
        std::uint64_t operation = 0;
        std::shared_ptr<Copied> copied;  ///< replaces `operation` if data are received into a copy
        pool from = eager_out;
    };

    message_slots() : uses_(static_cast<std::size_t>(all)) {
        int next = 0;
        for (std::size_t p = 0; p < pools; ++p)
            for (int i = 0; i < sizes[p]; ++i) free_[p].push_back(next++);
    }
    bool has(pool from) const noexcept { return !free_[from].empty(); }
    int in_use(pool from) const noexcept { return sizes[from] - static_cast<int>(free_[from].size()); }
    /// Returns the memory for a copy that a slot of eager_out sends.
    std::vector<std::byte>& copy_of(int slot) noexcept { return copies_[static_cast<std::size_t>(slot)]; }
    /// Takes a slot. Returns its number, 0 ... all - 1; -1 if none is left.
    int acquire(pool from, std::uint64_t operation, std::shared_ptr<Copied> copied = {}) noexcept {
        if (free_[from].empty()) return -1;
        const int slot = free_[from].back();
        free_[from].pop_back();
        uses_[static_cast<std::size_t>(slot)] = {operation, std::move(copied), from};
        return slot;
    }
    /// Releases a slot. Returns its purpose.
    use release(int slot) noexcept {
        use was = std::exchange(uses_[static_cast<std::size_t>(slot)], {});
        free_[was.from].push_back(slot);
        return was;
    }

private:
    std::array<std::vector<int>, pools> free_;
    std::vector<use> uses_;
    std::array<std::vector<std::byte>, sizes[eager_out]> copies_;  // by slot of eager_out; these are the first slots
};

/// Messages of callers: sends and receives of one rank, matched by source and tag in the order sent.
///
/// Each message is announced by a control message, its *envelope*, which the receiver matches. The data are sent
///
/// * inline, up to 16 bytes: in the envelope;
/// * eager, up to eager_bytes: as a copy, directly behind the envelope; the send is complete at once;
/// * by rendezvous: directly from buffer to buffer in pieces, each of which is sent when its receive is posted.
///
/// Memory is bounded. A sender has at most `window` complete sends to a peer that no receive has matched, and copies at
/// most eager_copies messages at a time. Further messages go by rendezvous, and the receiver keeps only their
/// envelopes. Ranks are numbered as in the plan. Functions throw only if there is no memory.
class point_to_point final : public control_service {
public:
    static constexpr std::size_t inline_bytes = 16, eager_bytes = 8192;
    static constexpr int window = 64;

private:
    struct envelope;
    using slots = message_slots<envelope>;

public:
    static constexpr int eager_copies = slots::sizes[slots::eager_out], wire_slots = slots::all;

    /// @param first_slot the first of wire_slots slots of the endpoint
    /// @param callers_rank the caller's rank numbers, by rank of the plan; must outlive this
    /// @param events gets a slice of the trace for each operation
    point_to_point(control_router& router, int first_slot, const std::vector<int>& callers_rank, recorder& events);

    /// Starts a send or a receive, which owns the memory until it is done. @param result set at the end; may be null
    /// @returns its number, from 1
    std::uint64_t send(const callers_message& m, const void* from);
    std::uint64_t recv(const callers_message& m, void* to, received* result);

    message_operations& operations() noexcept { return operations_; }
    /// Returns true once all copies have been sent.
    bool sent() const noexcept { return slots_.in_use(slots::eager_out) == 0; }

    /// Posts messages that waited for a slot. Returns true if anything happened.
    bool progress();
    void complete(int slot) noexcept;
    /// Receives all eager messages that match no receive, so their senders need not wait for this rank.
    void drain();

private:
    using kind = message_kind;
    using operation = message_operation;

    // Body of control messages about a caller's message. Only envelopes use more than `message`.
    struct description {
        std::uint64_t message = 0;  // number of the send, on the rank of the sender
        std::uint64_t bytes : 56 = 0;
        std::uint64_t type : 8 = 0;
        std::array<std::uint64_t, 2> payload{};  // data, in kind `inlined`
    };
    // A message that has been announced but not received.
    struct envelope {
        int from = 0, tag = 0;
        kind how = kind::inlined;
        description header;
        const std::byte* local = nullptr;   // data of a rendezvous from this rank to itself
        std::vector<std::byte> copy = {};   // data of an eager message that was received before it was matched
        bool posted = false, here = false;  // the receive of the data: posted, and complete
        std::uint64_t receive = 0;          // number of the receive that uses the copy; 0: none
    };
    struct peer_state {
        int credits = window;
        int taken = 0;                               // envelopes matched since the last credit message
        std::list<std::shared_ptr<envelope>> eager;  // messages that are announced but not posted, in the order sent
    };
    struct eager_receive {
        int peer;
        std::byte* to;
        std::size_t bytes;
        std::shared_ptr<envelope> copied;  // message that is received into a copy; null: `receive` is used
        std::uint64_t receive;
    };
    void receive(int from, const control_frame& f) override;
    void dispatch(std::uint64_t number);
    void keep_for_self(const operation& o, kind how, const description& d);
    void arrived(std::shared_ptr<envelope> e);
    bool matches(const operation& receive, const envelope& e) const noexcept {
        return receive.what.tag == e.tag && (receive.what.rank == any_source || receive.what.rank == e.from);
    }
    void deliver(std::uint64_t number, const std::shared_ptr<envelope>& e);
    std::string objection(const operation& receive, const envelope& e) const;
    void give_credit(int peer);
    void post_eager(const std::shared_ptr<envelope>& e, std::uint64_t receive);
    void take_copy(std::uint64_t number, envelope& e) noexcept;
    void grow(std::uint64_t number);
    void end(std::uint64_t number) noexcept {
        net_.wire().or_fail([&] { operations_.end(number); });  // the trace may need memory that is not there
        net_.expect_control(!operations_.empty());
        moved_ = true;
    }
    void send_number(int peer, kind what, std::uint64_t number, std::uint64_t count = 0) {
        send_control(peer, what, {.number = static_cast<std::uint32_t>(count)}, description{.message = number});
    }

    std::size_t piece_bytes(std::size_t bytes) const noexcept { return div_ceil(bytes, pieces_of(bytes)); }
    std::size_t pieces_of(std::size_t bytes) const noexcept;
    int wire_slot(int slot) const noexcept { return first_slot_ + slot; }

    const int first_slot_;
    message_operations operations_;
    std::list<std::uint64_t> receives_;                // posted but not matched, in order
    std::list<std::shared_ptr<envelope>> unexpected_;  // in the order of arrival
    std::map<int, peer_state> peers_;
    std::deque<eager_receive> eager_waiting_;                    // wait for slots
    std::deque<std::pair<std::uint64_t, std::size_t>> granted_;  // sends by rendezvous, each with its granted pieces
    std::deque<std::uint64_t> growing_;                          // receives by rendezvous that have pieces to post
    slots slots_;
    bool moved_ = false;
};

}  // namespace terrace::detail
