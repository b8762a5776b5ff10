#include "transport/ucx/ucx_messages.hpp"

#include <sys/random.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include <terrace/error.hpp>

#include "base/index.hpp"

namespace terrace::detail {

// UCX 1.13 does not report the length of a message that is complete at once.
ucp_request_param_t with_callback(void* data) noexcept {
    ucp_request_param_t p{};
    p.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
    p.user_data = data;
    return p;
}

ucx_messages::ucx_messages(const network_traits& traits, ucx_context context, const team& ranks, int slots)
    : messages(traits),
      context_(std::make_unique<const ucx_context>(std::move(context))),
      rank_(ranks.rank()),
      peers_(at(ranks.size())),
      slots_(at(slots)) {
    for (peer_state& p : peers_) p.owner = this;
    for (slot_state& s : slots_) s.owner = this;
    done_.reserve(at(slots));
    reported_.reserve(at(slots));
    if (::getrandom(key_.data(), sizeof key_, 0) != sizeof key_)
        throw transport_error("ucx", "getrandom", errno, "no random numbers");
    ucp_worker_params_t params{};
    params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
    params.thread_mode = UCS_THREAD_MODE_SERIALIZED;
    check(ucp_worker_create(context_->get(), &params, &worker_), "ucp_worker_create");
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

void ucx_messages::send(int slot, int peer, int tag, const void* from, std::size_t bytes) noexcept {
    if (fault()) return;
    slots_[at(slot)].busy = true;
    ++sending_;
    const waiting_send m{slot, tag, from, bytes};
    peer_state& p = peers_[at(peer)];
    if (p.accepted) return post_send(peer, m);
    if (open(peer)) or_fail([&] { p.waiting.push_back(m); });
}

void ucx_messages::post_send(int peer, const waiting_send& m) noexcept {
    slot_state& s = slots_[at(m.slot)];
    s.to = peer;
    ucp_request_param_t param = with_callback(&s);
    param.cb.send = &on_sent;
    void* request = ucp_tag_send_nbx(peers_[at(peer)].ep, m.from, m.bytes, tag_of(rank_, m.tag), &param);
    if (UCS_PTR_IS_ERR(request)) return lose_peer("ucp_tag_send_nbx", UCS_PTR_STATUS(request), peer);
    if (request == nullptr) return sent(s, UCS_OK);
    s.request = request;
}

void ucx_messages::recv(int slot, int peer, int tag, void* to, std::size_t bytes) noexcept {
    if (fault()) return;
    slot_state& s = slots_[at(slot)];
    s.busy = true;
    s.peer = peer;
    ucp_request_param_t param = with_callback(&s);
    param.cb.recv = &on_received;
    void* request = ucp_tag_recv_nbx(worker_, to, bytes, tag_of(peer, tag), ~ucp_tag_t{0}, &param);
    if (UCS_PTR_IS_ERR(request)) return latch("ucp_tag_recv_nbx", UCS_PTR_STATUS(request));
    if (request == nullptr) return received(s, UCS_OK);
    s.request = request;
    if (peers_[at(peer)].error != UCS_OK) any_broken_ = true;  // the message would never arrive
}

void ucx_messages::on_sent(void* request, ucs_status_t status, void* slot) {
    auto& s = *static_cast<slot_state*>(slot);
    s.request = nullptr;
    ucp_request_free(request);
    s.owner->sent(s, status);
}

// UCX accepts a message before all of its bytes have left, and no thread sends the rest while the caller computes. The
// last send in flight therefore stays in its slot until all bytes have left.
void ucx_messages::sent(slot_state& s, ucs_status_t status) noexcept {
    if (closed_) s.busy = false;
    if (closed_) return;
    --sending_;
    if (status != UCS_OK) return lose_peer("ucp_tag_send_nbx", status, s.to);  // the slot stays busy
    s.busy = false;
    ++accepted_;
    int slot = number_of(s);
    if (sending_ == 0) slot = std::exchange(held_, slot);
    if (slot >= 0) done_.push_back(slot);
}

void ucx_messages::on_received(void* request, ucs_status_t status, const ucp_tag_recv_info_t*, void* slot) {
    auto& s = *static_cast<slot_state*>(slot);
    s.request = nullptr;
    ucp_request_free(request);
    s.owner->received(s, status);
}

void ucx_messages::received(slot_state& s, ucs_status_t status) noexcept {
    s.busy = false;
    if (closed_) return;
    if (status == UCS_ERR_MESSAGE_TRUNCATED) return latch("ucp_tag_recv_nbx", status);
    if (status != UCS_OK) return lose_peer("ucp_tag_recv_nbx", status, s.peer);
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

// A flush that began before UCX accepted the last message does not cover this message.
bool ucx_messages::flushed() noexcept {
    while (true) {
        if (flush_ == nullptr) {
            flushing_ = accepted_;
            const ucp_request_param_t none{};
            void* request = ucp_worker_flush_nbx(worker_, &none);
            if (!UCS_PTR_IS_PTR(request)) return true;  // failures are reported at the endpoint
            flush_ = request;
        }
        if (ucp_request_check_status(flush_) == UCS_INPROGRESS) return false;
        ucp_request_free(std::exchange(flush_, nullptr));
        if (flushing_ == accepted_) return true;
    }
}

// Yields the core after each unsuccessful poll, since the awaited message may come from a rank on the same core. One
// sched_yield is not enough: the kernel may continue the same process.
void ucx_messages::progress() noexcept {
    if (closed_) return;
    if (ucp_worker_progress(worker_) == 0) sched_yield();
    while (arrived_ && !closed_) {
        arrived_ = false;
        receive_control();
        listen();
    }
    if (!controls_.empty()) post_controls();
    if (any_broken_) look_for_broken();
}

}  // namespace terrace::detail
