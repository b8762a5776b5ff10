#include "transport/ucx/ucx_messages.hpp"

#include <sys/random.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include <terrace/error.hpp>

#include "base/index.hpp"

namespace terrace::detail {

namespace {

// A tag of UCX: of messages the sender and the tag, of others this.
constexpr ucp_tag_t control_tag = ucp_tag_t{1} << 63;
constexpr int rank_shift = 32;

// How long who closes waits for its last bytes to leave.
constexpr auto patience = std::chrono::seconds(1);

ucp_request_param_t callback(ucp_send_nbx_callback_t then, void* data) noexcept {
    ucp_request_param_t p{};
    p.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
    p.cb.send = then;
    p.user_data = data;
    return p;
}

ucp_request_param_t callback(ucp_tag_recv_nbx_callback_t then, void* data) noexcept {
    ucp_request_param_t p{};
    p.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
    p.cb.recv = then;
    p.user_data = data;
    return p;
}

}  // namespace

ucx_messages::ucx_messages(const network_traits& traits, ucx_context context, const team& ranks, int slots)
    : messages(traits), context_(std::move(context)), rank_(ranks.rank()), peers_(at(ranks.size())), slots_(at(slots)) {
    for (peer_state& p : peers_) p.owner = this;
    for (slot_state& s : slots_) s.owner = this;
    done_.reserve(at(slots));
    reported_.reserve(at(slots));
    if (::getrandom(key_.data(), sizeof key_, 0) != sizeof key_)
        throw transport_error("ucx", "getrandom", errno, "no random numbers");
    ucp_worker_params_t params{};
    params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
    params.thread_mode = UCS_THREAD_MODE_SERIALIZED;
    check(ucp_worker_create(context_.get(), &params, &worker_), "ucp_worker_create");
}

void ucx_messages::introduce(team& ranks) {
    ucp_address_t* own = nullptr;
    std::size_t bytes = 0;
    check(ucp_worker_get_address(worker_, &own, &bytes), "ucp_worker_get_address");
    std::string text(reinterpret_cast<const char*>(key_.data()), sizeof key_);
    text.append(reinterpret_cast<const char*>(own), bytes);
    ucp_worker_release_address(worker_, own);
    addresses_ = ranks.exchange(text);
    for (std::size_t r = 0; r < addresses_.size(); ++r)
        if (addresses_[r].empty())
            throw transport_error("ucx", "ucp_worker_create", 1,
                                  fmt::format("rank {} cannot open UCX; its error says why", ranks.members()[r]));
    std::memcpy(key_.data(), addresses_.front().data(), sizeof key_);
    for (std::string& a : addresses_) a.erase(0, sizeof key_);
    listen();
}

ucx_messages::~ucx_messages() {
    if (fault() || std::any_of(slots_.begin(), slots_.end(), [](const slot_state& s) { return s.busy; })) abandon();
    if (!closed_) {
        for (std::size_t r = 0; r < peers_.size(); ++r)
            if (peers_[r].accepted && !peers_[r].left) say(static_cast<int>(r), kind::bye, {});
        wait([&] { return settled(); });
        close();
    }
    if (worker_ != nullptr) ucp_worker_destroy(worker_);
}

// What has been sent may still have to leave, for ranks that are to fail like this one.
bool ucx_messages::abandon() noexcept {
    if (closed_) return true;
    wait([&] { return flushed(); });
    close();
    const auto idle = [&] {
        return std::none_of(slots_.begin(), slots_.end(), [](const slot_state& s) { return s.request != nullptr; });
    };
    for (slot_state& s : slots_)
        if (s.request != nullptr) ucp_request_cancel(worker_, s.request);
    const bool ended = wait(idle);
    if (!ended) worker_ = nullptr;  // never destroyed: it goes on using the memory
    return ended;
}

// An endpoint that is closed by force ends what is in flight on it. The other end may see "Endpoint timeout".
void ucx_messages::close() noexcept {
    closed_ = true;
    if (listening_ != nullptr) ucp_request_cancel(worker_, listening_);
    std::vector<void*> closing;
    if (flush_ != nullptr) closing.push_back(std::exchange(flush_, nullptr));
    for (sent_control& c : controls_)
        if (c.request != nullptr) closing.push_back(std::exchange(c.request, nullptr));
    for (peer_state& p : peers_) {
        p.waiting.clear();
        if (p.ep == nullptr) continue;
        ucp_request_param_t force{};
        force.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
        force.flags = UCP_EP_CLOSE_FLAG_FORCE;
        void* request = ucp_ep_close_nbx(std::exchange(p.ep, nullptr), &force);
        if (UCS_PTR_IS_PTR(request)) closing.push_back(request);
    }
    wait([&] {
        std::erase_if(closing, [](void* request) {
            const bool over = ucp_request_check_status(request) != UCS_INPROGRESS;
            if (over) ucp_request_free(request);
            return over;
        });
        return closing.empty() && listening_ == nullptr;
    });
}

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

ucp_tag_t ucx_messages::tag_of(int from, int tag) const noexcept {
    return static_cast<ucp_tag_t>(from) << rank_shift | static_cast<std::uint32_t>(tag);
}

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
        latch("ucp_ep_create", status, peer);
        return false;
    }
    say(peer, kind::hello, {key_[0], key_[1], static_cast<std::uint64_t>(peer)});
    return true;
}

void ucx_messages::send(int slot, int peer, int tag, const void* from, std::size_t bytes) noexcept {
    if (fault()) return;
    slots_[at(slot)].busy = true;
    ++sending_;
    const waiting_send m{slot, tag, from, bytes};
    peer_state& p = peers_[at(peer)];
    if (p.accepted) return post_send(peer, m);
    if (open(peer)) p.waiting.push_back(m);
}

void ucx_messages::post_send(int peer, const waiting_send& m) noexcept {
    slot_state& s = slots_[at(m.slot)];
    const ucp_request_param_t param = callback(&on_sent, &s);
    void* request = ucp_tag_send_nbx(peers_[at(peer)].ep, m.from, m.bytes, tag_of(rank_, m.tag), &param);
    if (UCS_PTR_IS_ERR(request)) return latch("ucp_tag_send_nbx", UCS_PTR_STATUS(request), peer);
    if (request == nullptr) return sent(s, UCS_OK);
    s.request = request;
}

void ucx_messages::recv(int slot, int peer, int tag, void* to, std::size_t bytes) noexcept {
    if (fault()) return;
    slot_state& s = slots_[at(slot)];
    s.busy = true;
    s.bytes = bytes;
    s.peer = peer;
    const ucp_request_param_t param = callback(&on_received, &s);
    void* request = ucp_tag_recv_nbx(worker_, to, bytes, tag_of(peer, tag), ~ucp_tag_t{0}, &param);
    if (UCS_PTR_IS_ERR(request)) return latch("ucp_tag_recv_nbx", UCS_PTR_STATUS(request), peer);
    if (request == nullptr) return received(s, UCS_OK, bytes);  // UCX 1.13 does not say how long it was
    s.request = request;
    if (peers_[at(peer)].error != UCS_OK) any_broken_ = true;  // it would never come
}

void ucx_messages::on_sent(void* request, ucs_status_t status, void* slot) {
    auto& s = *static_cast<slot_state*>(slot);
    s.request = nullptr;
    ucp_request_free(request);
    s.owner->sent(s, status);
}

// UCX accepts a message before all of its bytes have left, and leaves nobody to send the rest while the caller
// computes. So the last send in flight stays until they have.
void ucx_messages::sent(slot_state& s, ucs_status_t status) noexcept {
    s.busy = false;
    if (closed_) return;
    if (status != UCS_OK) return latch("ucp_tag_send_nbx", status);
    int slot = number_of(s);
    if (--sending_ == 0) slot = std::exchange(held_, slot);
    if (slot >= 0) done_.push_back(slot);
}

void ucx_messages::on_received(void* request, ucs_status_t status, const ucp_tag_recv_info_t* info, void* slot) {
    auto& s = *static_cast<slot_state*>(slot);
    s.request = nullptr;
    const std::size_t bytes = info != nullptr ? info->length : 0;
    ucp_request_free(request);
    s.owner->received(s, status, bytes);
}

void ucx_messages::received(slot_state& s, ucs_status_t status, std::size_t bytes) noexcept {
    s.busy = false;
    if (closed_) return;
    if (status == UCS_OK && bytes != s.bytes) status = UCS_ERR_MESSAGE_TRUNCATED;
    if (status != UCS_OK) return latch("ucp_tag_recv_nbx", status, s.peer);
    s.peer = -1;
    done_.push_back(number_of(s));
}

std::span<const int> ucx_messages::poll() noexcept {
    progress();
    if (held_ >= 0 && (sending_ > 0 || flushed())) done_.push_back(std::exchange(held_, -1));
    reported_.swap(done_);
    done_.clear();
    return reported_;
}

bool ucx_messages::flushed() noexcept {
    if (flush_ == nullptr) {
        const ucp_request_param_t none{};
        void* request = ucp_worker_flush_nbx(worker_, &none);
        if (!UCS_PTR_IS_PTR(request)) return true;  // what has failed shows at its endpoint
        flush_ = request;
    }
    if (ucp_request_check_status(flush_) == UCS_INPROGRESS) return false;
    ucp_request_free(std::exchange(flush_, nullptr));
    return true;
}

bool ucx_messages::settled() noexcept {
    progress();
    return fault() || (controls_.empty() && flushed());
}

void ucx_messages::progress() noexcept {
    if (closed_) return;
    ucp_worker_progress(worker_);
    while (arrived_ && !closed_) {
        arrived_ = false;
        hear();
        listen();
    }
    if (!controls_.empty()) post_controls();
    if (any_broken_) look_for_broken();
}

// ---- hellos, byes and notes ---------------------------------------------------------------------------------------

void ucx_messages::listen() noexcept {
    heard_ = {};
    const ucp_request_param_t param = callback(&on_control, this);
    void* request = ucp_tag_recv_nbx(worker_, &heard_, sizeof heard_, control_tag, ~ucp_tag_t{0}, &param);
    if (UCS_PTR_IS_ERR(request)) return latch("ucp_tag_recv_nbx", UCS_PTR_STATUS(request));
    if (request == nullptr) arrived_ = true;
    else listening_ = request;
}

void ucx_messages::on_control(void* request, ucs_status_t status, const ucp_tag_recv_info_t*, void* self) {
    auto& m = *static_cast<ucx_messages*>(self);
    m.listening_ = nullptr;
    m.arrived_ = !m.closed_;
    if (status != UCS_OK) m.heard_ = {};  // too long for one of these: nobody's
    ucp_request_free(request);
}

// Whoever does not show the key is no peer: what it says has no effect, and it gets no answer.
void ucx_messages::hear() noexcept {
    if (heard_.from >= peers_.size()) return;
    peer_state& p = peers_[heard_.from];
    const int peer = static_cast<int>(heard_.from);
    const words& w = heard_.payload;
    if (heard_.what == kind::hello) {
        if (w[0] != key_[0] || w[1] != key_[1] || w[2] != static_cast<std::uint64_t>(rank_)) return;
        if (p.accepted || !open(peer)) return;
        p.accepted = true;
        for (const waiting_send& m : std::exchange(p.waiting, {})) post_send(peer, m);
    }
    if (!p.accepted) return;
    if (heard_.what == kind::note) notes_.push_back({peer, w});
    if (heard_.what == kind::bye) p.left = true;
}

void ucx_messages::say(int peer, kind what, const words& payload) noexcept {
    controls_.push_back({peer, {what, static_cast<std::uint32_t>(rank_), payload}});
    post_controls();
}

void ucx_messages::post_controls() noexcept {
    for (sent_control& c : controls_) {
        peer_state& p = peers_[at(c.peer)];
        if (c.posted || (c.said.what != kind::hello && !p.accepted && p.error == UCS_OK)) continue;
        c.posted = true;
        if (p.ep == nullptr || p.error != UCS_OK) continue;  // it is gone
        const ucp_request_param_t none{};
        void* request = ucp_tag_send_nbx(p.ep, &c.said, sizeof c.said, control_tag, &none);
        if (UCS_PTR_IS_PTR(request)) c.request = request;
    }
    const auto on_its_way = [](sent_control& c) {
        if (!c.posted) return true;
        if (c.request == nullptr) return false;
        if (ucp_request_check_status(c.request) == UCS_INPROGRESS) return true;
        ucp_request_free(std::exchange(c.request, nullptr));
        return false;
    };
    while (!controls_.empty() && !on_its_way(controls_.front())) controls_.pop_front();
}

void ucx_messages::send_note(int peer, const note& n) noexcept {
    if (!fault() && open(peer)) say(peer, kind::note, n.words);
}

std::optional<note> ucx_messages::take_note() noexcept {
    if (notes_.empty()) progress();
    if (notes_.empty()) return {};
    const note first = notes_.front();
    notes_.pop_front();
    return first;
}

// ---- failures -----------------------------------------------------------------------------------------------------

void ucx_messages::on_broken(void* peer, ucp_ep_h, ucs_status_t status) {
    auto& p = *static_cast<peer_state*>(peer);
    p.error = status;
    p.owner->any_broken_ = true;
}

// Who has said goodbye may go, unless something is still expected of it.
void ucx_messages::look_for_broken() noexcept {
    any_broken_ = false;
    for (std::size_t r = 0; r < peers_.size(); ++r) {
        const peer_state& p = peers_[r];
        const int peer = static_cast<int>(r);
        const auto expected = [&](const slot_state& s) { return s.request != nullptr && s.peer == peer; };
        if (p.error != UCS_OK && (!p.left || !p.waiting.empty() || std::any_of(slots_.begin(), slots_.end(), expected)))
            return latch("ucp_worker_progress", p.error, peer);
    }
}

void ucx_messages::latch(const char* call, ucs_status_t status, int peer) noexcept {
    if (fault()) return;
    const std::string who = peer < 0 ? "" : fmt::format("rank {} of the plan: ", peer);
    fail({"ucx", call, status, who + ucs_status_string(status)});
}

}  // namespace terrace::detail
