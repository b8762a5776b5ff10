#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include <ucp/api/ucp.h>

#include "transport/messages.hpp"
#include "transport/team.hpp"

namespace terrace::detail {

/// UCX's context: the devices and how they are used.
using ucx_context = std::shared_ptr<ucp_context>;

/// Checks the status of a call in set-up. @throws transport_error unless it is UCS_OK
void check(ucs_status_t status, const char* call);
/// Returns the parameters of a request. The caller must still set the callback, which receives `data`.
ucp_request_param_t with_callback(void* data) noexcept;

/// Messages over UCX, by a worker of their own. A peer is connected when it is first used. Both ends then send the job
/// key in a hello, and nothing else before the peer's hello has arrived.
class ucx_messages final : public messages {
public:
    /// @throws transport_error
    ucx_messages(const network_traits& traits, ucx_context context, const team& ranks, int slots);
    ~ucx_messages() override;

    /// Exchanges addresses and the job key, which rank 0 makes. Collective, once. @throws transport_error
    void introduce(team& ranks);

    void send(int slot, int peer, int tag, const void* from, std::size_t bytes) noexcept override;
    void recv(int slot, int peer, int tag, void* to, std::size_t bytes) noexcept override;
    std::span<const int> poll() noexcept override;
    void send_control(int peer, const control_message& m) noexcept override {
        if (!fault() && open(peer)) send_control(peer, kind::message, m.words);
    }
    std::optional<control_message> take_control() noexcept override;
    bool abandon() noexcept override;
    void look() noexcept override { progress(); }
    bool settled() noexcept override {
        progress();
        return fault() || (controls_.empty() && flushed());
    }

private:
    using words = std::array<std::uint64_t, 5>;
    enum class kind : std::uint32_t { none, message, hello, shutdown };
    struct control {
        kind what = kind::none;
        std::uint32_t from = 0;
        words payload{};
    };

    struct waiting_send {
        int slot, tag;
        const void* from;
        std::size_t bytes;
    };
    struct peer_state {
        ucx_messages* owner = nullptr;
        ucp_ep_h ep = nullptr;
        bool accepted = false;              // its hello has arrived
        bool left = false;                  // it has sent a shutdown message: a lost connection is no failure
        ucs_status_t error = UCS_OK;        // status of its endpoint
        std::vector<waiting_send> waiting;  // sends that wait for its hello
        void* closing = nullptr;            // UCX's request, while the endpoint closes
    };
    struct slot_state {
        ucx_messages* owner = nullptr;
        void* request = nullptr;  // UCX's request, while a message is in flight
        int peer = -1;            // source of a receive in flight
        int to = -1;              // destination of the last send
        bool busy = false;
    };
    // A hello, shutdown or control message in flight: the peer need not expect it.
    struct sent_control {
        int peer;
        control message;
        void* request = nullptr;
        bool posted = false;
    };

    static void on_sent(void* request, ucs_status_t status, void* slot);
    static void on_received(void* request, ucs_status_t status, const ucp_tag_recv_info_t* info, void* slot);
    static void on_control(void* request, ucs_status_t status, const ucp_tag_recv_info_t* info, void* self);
    static void on_broken(void* peer, ucp_ep_h /*ep*/, ucs_status_t status) {
        auto& p = *static_cast<peer_state*>(peer);
        p.error = status;
        p.owner->any_broken_ = true;
    }

    bool open(int peer) noexcept;
    void post_send(int peer, const waiting_send& m) noexcept;
    void sent(slot_state& s, ucs_status_t status) noexcept;
    void received(slot_state& s, ucs_status_t status) noexcept;
    void send_control(int peer, kind what, const words& payload) noexcept;
    void post_controls() noexcept;
    void listen() noexcept;
    void receive_control() noexcept;
    void progress() noexcept;
    void look_for_broken() noexcept;
    bool flushed() noexcept;
    template <class Done>
    bool wait(Done done) noexcept;
    void close() noexcept;
    void keep_worker() noexcept;
    void latch(const char* call, ucs_status_t status) noexcept {
        if (!fault()) or_fail([&] { fail({"ucx", call, status, ucs_status_string(status)}); });
    }
    void lose_peer(const char* call, ucs_status_t status, int peer) noexcept;

    static ucp_tag_t tag_of(int from, int tag) noexcept {
        return static_cast<ucp_tag_t>(from) << 32 | static_cast<std::uint32_t>(tag);
    }
    int number_of(const slot_state& s) const noexcept { return static_cast<int>(&s - slots_.data()); }

    std::unique_ptr<const ucx_context> context_;
    const int rank_;
    ucp_worker_h worker_ = nullptr;
    std::array<std::uint64_t, 2> key_{};
    std::vector<std::string> addresses_;  // by rank
    std::vector<peer_state> peers_;       // by rank
    std::vector<slot_state> slots_;
    std::vector<int> done_, reported_;  // slots
    int sending_ = 0;                   // sends that UCX has not accepted completely
    int held_ = -1;                     // slot of the last send, until all bytes have left
    std::uint64_t accepted_ = 0;        // messages and controls that UCX has accepted
    std::uint64_t flushing_ = 0;        // value of `accepted_` that the flush in flight covers
    void* flush_ = nullptr;
    control incoming_;  // buffer of the control message that `listening_` receives
    void* listening_ = nullptr;
    bool arrived_ = false;
    std::deque<sent_control> controls_;
    std::deque<control_message> control_;
    bool any_broken_ = false, closed_ = false;
};

}  // namespace terrace::detail
