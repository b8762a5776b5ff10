// Peers: hellos, control messages and shutdown messages, closing, and failures.

#include <algorithm>
#include <chrono>
#include <utility>

#include <fmt/format.h>

#include "base/index.hpp"
#include "transport/ucx/ucx_messages.hpp"

namespace terrace::detail {

namespace {

constexpr ucp_tag_t control_tag = ucp_tag_t{1} << 63;  // no other message has this tag

// Longest wait for the last bytes to leave on closing.
constexpr auto patience = std::chrono::seconds(1);

// Frees a request of UCX if it is complete. Returns true if there is none any more.
bool over(void*& request) noexcept {
    if (request != nullptr && ucp_request_check_status(request) != UCS_INPROGRESS)
        ucp_request_free(std::exchange(request, nullptr));
    return request == nullptr;
}

}  // namespace

bool ucx_messages::open(int peer) noexcept {
    peer_state& p = peers_[at(peer)];
    if (p.ep != nullptr || closed_) return p.ep != nullptr;
    ucp_ep_params_t params{};
    params.field_mask =
        UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE | UCP_EP_PARAM_FIELD_ERR_HANDLER;
    params.address = reinterpret_cast<const ucp_address_t*>(addresses_[at(peer)].data());
    params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
    params.err_handler = {&on_broken, &p};
    if (const ucs_status_t status = ucp_ep_create(worker_, &params, &p.ep); status != UCS_OK) {
        lose_peer("ucp_ep_create", status, peer);
        return false;
    }
    send_control(peer, kind::hello, {key_[0], key_[1], static_cast<std::uint64_t>(peer)});
    return true;
}

void ucx_messages::listen() noexcept {
    incoming_ = {};
    ucp_request_param_t param = with_callback(this);
    param.cb.recv = &on_control;
    void* request = ucp_tag_recv_nbx(worker_, &incoming_, sizeof incoming_, control_tag, ~ucp_tag_t{0}, &param);
    if (UCS_PTR_IS_ERR(request)) return latch("ucp_tag_recv_nbx", UCS_PTR_STATUS(request));
    if (request == nullptr) arrived_ = true;
    else listening_ = request;
}

void ucx_messages::on_control(void* request, ucs_status_t status, const ucp_tag_recv_info_t*, void* self) {
    auto& m = *static_cast<ucx_messages*>(self);
    m.listening_ = nullptr;
    m.arrived_ = !m.closed_;
    if (status != UCS_OK) m.incoming_ = {};  // too long for a control message: ignored
    ucp_request_free(request);
}

// Ignores processes that have not sent the key, and does not answer them.
void ucx_messages::receive_control() noexcept {
    if (incoming_.from >= peers_.size()) return;
    peer_state& p = peers_[incoming_.from];
    const int peer = static_cast<int>(incoming_.from);
    const words& w = incoming_.payload;
    if (incoming_.what == kind::hello) {
        if (w[0] != key_[0] || w[1] != key_[1] || w[2] != static_cast<std::uint64_t>(rank_)) return;
        if (p.accepted || !open(peer)) return;
        p.accepted = true;
        for (const waiting_send& m : std::exchange(p.waiting, {})) post_send(peer, m);
    }
    if (!p.accepted) return;
    if (incoming_.what == kind::message) or_fail([&] { control_.push_back({peer, w}); });
    if (incoming_.what == kind::shutdown) p.left = true;
}

void ucx_messages::send_control(int peer, kind what, const words& payload) noexcept {
    or_fail([&] { controls_.push_back({peer, {what, static_cast<std::uint32_t>(rank_), payload}}); });
    post_controls();
}

void ucx_messages::post_controls() noexcept {
    for (sent_control& c : controls_) {
        peer_state& p = peers_[at(c.peer)];
        if (c.posted || (c.message.what != kind::hello && !p.accepted && p.error == UCS_OK)) continue;
        c.posted = true;
        if (p.ep == nullptr || p.error != UCS_OK) continue;  // the peer is gone
        const ucp_request_param_t none{};
        void* request = ucp_tag_send_nbx(p.ep, &c.message, sizeof c.message, control_tag, &none);
        if (UCS_PTR_IS_PTR(request)) c.request = request;
    }
    for (; !controls_.empty() && controls_.front().posted && over(controls_.front().request); controls_.pop_front())
        ++accepted_;
}

std::optional<control_message> ucx_messages::take_control() noexcept {
    if (control_.empty()) progress();
    if (control_.empty()) return {};
    const control_message first = control_.front();
    control_.pop_front();
    return first;
}

// A peer that has sent a shutdown message may end, unless messages to or from it are still expected.
void ucx_messages::look_for_broken() noexcept {
    any_broken_ = false;
    for (std::size_t r = 0; r < peers_.size(); ++r) {
        const peer_state& p = peers_[r];
        const int peer = static_cast<int>(r);
        const auto expected = [&](const slot_state& s) { return s.request != nullptr && s.peer == peer; };
        if (p.error != UCS_OK && (!p.left || !p.waiting.empty() || std::any_of(slots_.begin(), slots_.end(), expected)))
            lose_peer("ucp_worker_progress", p.error, peer);
    }
}

void ucx_messages::lose_peer(const char* call, ucs_status_t status, int peer) noexcept {
    or_fail([&] {
        lose(peer, {"ucx", call, status, fmt::format("rank {} of the plan: {}", peer, ucs_status_string(status))});
    });
}

// ---- closing ------------------------------------------------------------------------------------------------------

template <class Done>
bool ucx_messages::wait(Done done) noexcept {
    const auto begin = std::chrono::steady_clock::now();
    while (!done()) {
        if (std::chrono::steady_clock::now() - begin > patience) return false;
        ucp_worker_progress(worker_);
        sched_yield();
    }
    return true;
}

ucx_messages::~ucx_messages() {
    if (fault() || std::any_of(slots_.begin(), slots_.end(), [](const slot_state& s) { return s.busy; })) abandon();
    if (!closed_) {
        for (std::size_t r = 0; r < peers_.size(); ++r)
            if (peers_[r].accepted && !peers_[r].left) send_control(static_cast<int>(r), kind::shutdown, {});
        wait([&] { return settled(); });
        close();
    }
    if (worker_ != nullptr) ucp_worker_destroy(worker_);
}

// Waits first until sent messages have left, since they may be for ranks that must fail like this one.
bool ucx_messages::abandon() noexcept {
    if (closed_) return worker_ != nullptr;
    wait([&] { return flushed(); });
    close();
    if (worker_ == nullptr) return false;
    for (slot_state& s : slots_)
        if (s.request != nullptr) ucp_request_cancel(worker_, s.request);
    const bool ended = wait([&] {
        return std::none_of(slots_.begin(), slots_.end(), [](const slot_state& s) { return s.request != nullptr; });
    });
    if (!ended) keep_worker();
    return ended;
}

// Leaks the worker and its context on purpose, since the worker may go on using the context and memory.
void ucx_messages::keep_worker() noexcept {
    if (std::exchange(worker_, nullptr) != nullptr) context_.release();  // NOLINT(bugprone-unused-return-value)
}

// Closing an endpoint by force ends its messages in flight. The other end may see "Endpoint timeout". If a node cannot
// be reached, UCX may need long, and aborts the process if the worker is destroyed meanwhile.
void ucx_messages::close() noexcept {
    closed_ = true;
    if (listening_ != nullptr) ucp_request_cancel(worker_, listening_);
    for (peer_state& p : peers_) {
        p.waiting.clear();
        if (p.ep == nullptr) continue;
        ucp_request_param_t force{};
        force.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
        force.flags = UCP_EP_CLOSE_FLAG_FORCE;
        void* request = ucp_ep_close_nbx(std::exchange(p.ep, nullptr), &force);
        if (UCS_PTR_IS_PTR(request)) p.closing = request;
    }
    const bool all_over = wait([&] {
        return over(flush_) && std::ranges::all_of(controls_, over, &sent_control::request) &&
               std::ranges::all_of(peers_, over, &peer_state::closing) && listening_ == nullptr;
    });
    if (!all_over) keep_worker();
}

}  // namespace terrace::detail
