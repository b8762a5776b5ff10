#pragma once

#include <sched.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace terrace::detail {

/// A failure that the library below a transport reported.
struct transport_fault {
    std::string library, call;
    int code = 0;
    std::string message;
};

inline transport_fault out_of_memory() noexcept { return {"terrace", "new", ENOMEM, "out of memory"}; }

/// A few words from one rank to another, apart from data. The receiver need not expect them. lib/control defines their
/// meaning.
struct control_message {
    int from = 0;
    std::array<std::uint64_t, 5> words{};
};

/// A peer to which the library below has lost the connection.
struct lost_peer {
    int peer = 0;
    transport_fault why;
};

/// Properties of a network, the same on all its ranks except `one_thread`.
struct network_traits {
    std::string name;
    std::size_t segment = 0;  ///< [bytes]; longer messages would be slower, and are cut into pieces of equal length
    int highest_tag = std::numeric_limits<int>::max();  ///< highest tag of a message; at least 32,766
    int spin_limit = 16;                                ///< unsuccessful polls before messages::idle()
    bool device_memory = false;                         ///< messages may lie in memory of a GPU
    bool takes_shorter = false;                         ///< a message may be shorter than the receiver's buffer
    bool by_node_memory = false;  ///< messages between ranks of a node are faster in memory that the ranks share
    std::string no_survivors{};   ///< why ranks cannot go on after one has failed, with advice; empty if they can
    std::string one_thread{};     ///< why two threads may not call it at once, with advice; empty if they may
};

/// Messages among the ranks 0 ... size - 1 of one team. Used by one thread at a time. Messages between two ranks with
/// one tag arrive in the order sent. No function throws: the first failure is latched, and nothing is guaranteed to
/// complete after it. A transport consists of this interface, network::connect and a bootstrap.
class messages {
public:
    explicit messages(network_traits traits) : traits_(std::move(traits)) {}
    messages(const messages&) = delete;
    messages& operator=(const messages&) = delete;
    virtual ~messages() = default;

    const network_traits& traits() const noexcept { return traits_; }

    /// Starts a message in a free slot. The memory must stay valid and unchanged until poll() returns the slot.
    virtual void send(int slot, int peer, int tag, const void* from, std::size_t bytes) noexcept = 0;
    virtual void recv(int slot, int peer, int tag, void* to, std::size_t bytes) noexcept = 0;
    /// Progresses messages. Returns the slots that have completed, each once; valid until the next call.
    virtual std::span<const int> poll() noexcept = 0;
    /// Sends a control message. Buffered: the send completes whatever the receiver does.
    virtual void send_control(int peer, const control_message& m) noexcept = 0;
    /// Returns the next control message, if one has arrived. Control messages of a rank arrive in the order sent.
    virtual std::optional<control_message> take_control() noexcept = 0;
    /// Gives up all messages in flight, after a failure. None of them matches a message of a later connection. Returns
    /// false if the network may still read or write their memory, which must then never be freed.
    virtual bool abandon() noexcept = 0;

    /// Progresses messages that the library below has accepted but not sent, if poll() does not. Optional.
    virtual void look() noexcept {}
    /// Does look() and yields the core, since ranks may outnumber cores. Returns soon. Optional.
    virtual void idle() noexcept {
        look();
        sched_yield();
    }

    /// Returns true once all accepted messages leave without further calls, so the caller may compute. Optional.
    virtual bool settled() noexcept { return true; }

    /// Returns the first failure, if any.
    const std::optional<transport_fault>& fault() const noexcept { return fault_; }
    /// Returns the lost peers, each once. Messages with lost peers never complete; messages with others go on.
    const std::vector<lost_peer>& lost() const noexcept { return lost_; }

    /// Latches a failure, unless there is one already.
    void fail(transport_fault f) noexcept {
        if (!fault_) fault_ = std::move(f);
    }
    /// Runs an action that may allocate, in a function that must not throw. Latches lack of memory as a failure.
    template <class Action>
    void or_fail(const Action& action) noexcept {
        try {
            action();
        } catch (const std::bad_alloc&) {
            fail(out_of_memory());
        }
    }

protected:
    /// Records that the connection to a peer is lost, unless this is known.
    void lose(int peer, transport_fault why) noexcept {
        for (const lost_peer& l : lost_)
            if (l.peer == peer) return;
        or_fail([&] { lost_.push_back({peer, std::move(why)}); });
    }

private:
    const network_traits traits_;
    std::optional<transport_fault> fault_;
    std::vector<lost_peer> lost_;
};

/// Decides when a thread that polls yields its core.
class waiter {
public:
    /// Counts a poll; `moved`: the poll had an effect. Returns true if the thread should yield.
    bool should_yield(bool moved, int spin_limit) noexcept {
        return (in_vain_ = moved ? 0 : in_vain_ + 1) > spin_limit;
    }

private:
    int in_vain_ = 0;
};

}  // namespace terrace::detail
