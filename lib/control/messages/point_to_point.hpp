#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <terrace/message.hpp>
#include <terrace/types.hpp>

#include "control/messages/message_slots.hpp"
#include "control/router.hpp"
#include "executor/engine.hpp"

namespace terrace::detail {

/// Messages of callers: sends and receives of one rank, matched by source and tag in the order sent.
///
/// Each message is announced by a control message, its *envelope*, and matched where it arrives. How the data travel:
///
/// * inline, up to 16 bytes: in the envelope;
/// * eager, up to eager_bytes: copied, and sent at once behind the envelope; the send is complete at once;
/// * by rendezvous: straight from buffer to buffer in pieces, each of which is sent when its receive is posted.
///
/// Memory is bounded. A sender has at most `window` complete sends to a peer that no receive has taken, and copies at
/// most eager_copies messages at a time; further ones go by rendezvous, of which the receiver keeps the envelope alone.
/// Ranks are the plan's. No function throws but for lack of memory.
class point_to_point final : public control_service, public slot_owner {
public:
    static constexpr std::size_t inline_bytes = 16, eager_bytes = 8192;
    static constexpr int window = 64;

private:
    struct envelope;
    using slots = message_slots<envelope>;

public:
    static constexpr int eager_copies = slots::sizes[slots::eager_out], wire_slots = slots::all;

    /// @param first_slot the first of wire_slots slots of the endpoint
    /// @param callers_rank the caller's numbering, by rank of the plan; must outlive this
    /// @param events gets a slice for each operation
    point_to_point(control_router& router, int first_slot, const std::vector<int>& callers_rank, recorder& events);

    /// A message at one end. `rank` is the other end's, any_source where a receive accepts all.
    struct message {
        int rank = 0, tag = 0;
        element_type type = element_type::float32;
        std::size_t bytes = 0;  ///< of the message, or the most that a receive accepts
    };

    /// Starts a send or a receive. The memory belongs to it until it is done. @param result is set when it is; or null
    /// @returns its number, from 1
    std::uint64_t send(const message& m, const void* from);
    std::uint64_t recv(const message& m, void* to, received* result);

    bool done(std::uint64_t number) const noexcept { return !active_.contains(number); }
    /// Returns what was wrong with an operation that is done, once; empty if nothing was.
    std::string take_error(std::uint64_t number);
    /// True if no operation is in flight.
    bool idle() const noexcept { return active_.empty(); }
    /// True once everything that was copied has left.
    bool sent() const noexcept { return eager_in_flight_ == 0; }

    /// Posts what has waited for a slot. Returns true if anything happened.
    bool progress();
    void complete(int slot) noexcept override;
    /// Receives all copied messages that nobody has asked for, so that their senders need not wait for this rank.
    void drain();

    /// Says that a caller now waits for this operation, for age() and add_waits(). Does nothing for 0.
    void await(std::uint64_t number);
    /// Says that it waits no more.
    void stop_awaiting(std::uint64_t number) noexcept { awaited_.erase(number); }
    /// Returns how long a caller has waited.
    std::chrono::duration<double> age() const noexcept;
    /// Adds what the operations wait for that callers wait for.
    void add_waits(waiting& all) const;

private:
    using kind = message_kind;

    struct operation {
        message what;
        bool sends = false;
        const std::byte* from = nullptr;  // of a send
        std::byte* to = nullptr;          // of a receive
        received* result = nullptr;
        std::size_t bytes = 0;  // of the message, once a receive has its envelope
        int source = -1;
        std::uint64_t sender = 0;          // number of the send by rendezvous at the other end
        std::size_t posted = 0, over = 0;  // pieces of a rendezvous
        int row = -1;                      // of the trace
        std::chrono::steady_clock::time_point since{};
    };
    // What a control message says of a caller's message; all but its number is of an envelope.
    struct description {
        std::uint64_t message = 0;  // the sender's number
        std::uint64_t bytes : 56 = 0;
        std::uint64_t type : 8 = 0;
        std::array<std::uint64_t, 2> payload{};  // of kind `inlined`
    };
    // A message that has been announced and not received.
    struct envelope {
        int from = 0, tag = 0;
        kind how = kind::inlined;
        description said;
        const std::byte* local = nullptr;   // of this rank's own message by rendezvous
        std::vector<std::byte> copy = {};   // of an eager message that nobody has asked for when it is received
        bool posted = false, here = false;  // its copy
        std::uint64_t receive = 0;          // that takes the copy
    };
    using envelopes = std::list<std::shared_ptr<envelope>>;
    struct peer_state {
        int credits = window;
        int taken = 0;                               // envelopes, since this rank said so last
        std::list<std::shared_ptr<envelope>> eager;  // announced, not yet posted, in the order sent
    };
    struct eager_receive {
        int peer;
        std::byte* to;
        std::size_t bytes;
        std::shared_ptr<envelope> copied;  // or
        std::uint64_t receive;
    };
    void take(int from, const control_frame& f) override;
    std::uint64_t begin(operation o);
    void dispatch(std::uint64_t number);
    void keep_for_self(const operation& o, kind how, const description& d);
    void arrived(std::shared_ptr<envelope> e);
    bool matches(const operation& receive, const envelope& e) const noexcept;
    void deliver(std::uint64_t number, const std::shared_ptr<envelope>& e);
    std::string objection(const operation& receive, const envelope& e) const;
    void give_credit(int peer);
    void post_eager(const std::shared_ptr<envelope>& e, std::uint64_t receive);
    void take_copy(std::uint64_t number, envelope& e) noexcept;
    void grow(std::uint64_t number);
    void end(std::uint64_t number) noexcept;
    void add_to_trace(const operation& o);
    void add_wait(const operation& o, waiting& all) const;
    void tell(int peer, kind what, std::uint64_t number, std::uint64_t count = 0);

    std::size_t piece_bytes(std::size_t bytes) const noexcept;
    std::size_t pieces_of(std::size_t bytes) const noexcept;
    int wire_slot(int slot) const noexcept { return first_slot_ + slot; }

    const int first_slot_;
    const std::vector<int>& callers_rank_;
    recorder& events_;
    std::uint64_t numbers_ = 0;
    std::map<std::uint64_t, operation> active_;
    std::map<std::uint64_t, std::string> errors_;
    std::list<std::uint64_t> receives_;  // posted and not matched, in order
    envelopes unexpected_;               // in the order of arrival
    std::map<int, peer_state> peers_;
    std::deque<eager_receive> eager_waiting_;                    // for slots
    std::deque<std::pair<std::uint64_t, std::size_t>> granted_;  // sends by rendezvous, and how many pieces
    std::deque<std::uint64_t> growing_;                          // receives by rendezvous that have pieces to post
    slots slots_;
    std::vector<std::vector<std::byte>> copies_;  // by slot of eager_out
    int eager_in_flight_ = 0;
    std::vector<bool> rows_;  // of the trace, by number: in use
    bool moved_ = false;
    std::map<std::uint64_t, std::chrono::steady_clock::time_point> awaited_;  // since when
};

}  // namespace terrace::detail
