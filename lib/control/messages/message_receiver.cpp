// point_to_point: the receiver's side.

#include <algorithm>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "control/messages/point_to_point.hpp"

namespace terrace::detail {

void point_to_point::receive(int from, const control_frame& f) {
    const auto what = static_cast<kind>(f.kind);
    const auto said = f.get<description>();
    if (what == kind::grant) return void(granted_.emplace_back(said.message, f.number));
    if (what == kind::refusal) return end(said.message);
    if (what == kind::credit) return void(peers_[from].credits += static_cast<int>(f.number));
    auto e = std::make_shared<envelope>(envelope{from, static_cast<int>(f.number), what, said});
    if (what == kind::eager) peers_[from].eager.push_back(e);
    arrived(std::move(e));
}

bool point_to_point::matches(const operation& receive, const envelope& e) const noexcept {
    return receive.what.tag == e.tag && (receive.what.rank == any_source || receive.what.rank == e.from);
}

void point_to_point::arrived(std::shared_ptr<envelope> e) {
    moved_ = true;
    const auto found =
        std::find_if(receives_.begin(), receives_.end(), [&](std::uint64_t r) { return matches(operations_[r], *e); });
    if (found == receives_.end()) {
        unexpected_.push_back(std::move(e));
        return;
    }
    const std::uint64_t number = *found;
    receives_.erase(found);
    deliver(number, e);
}

std::string point_to_point::objection(const operation& receive, const envelope& e) const {
    const auto text = [&](std::size_t bytes, element_type type) {
        return fmt::format("{} {}", bytes / size_of(type), to_string(type));
    };
    const auto type = static_cast<element_type>(e.said.type);
    if (type == receive.what.type && e.said.bytes <= receive.what.bytes) return {};
    return fmt::format("recv: the message of rank {} with tag {} has {}, but the buffer {}; the message is lost",
                       operations_.callers_rank(e.from), e.tag, text(e.said.bytes, type),
                       type == receive.what.type ? fmt::format("has room for {}", receive.what.bytes / size_of(type))
                                                 : "is of " + text(receive.what.bytes, receive.what.type));
}

// The pair has matched. From here on the receive waits for this message alone.
void point_to_point::deliver(std::uint64_t number, const std::shared_ptr<envelope>& e) {
    operation& o = operations_[number];
    o.source = e->from;
    o.bytes = e->said.bytes;
    o.sender = e->said.message;
    const std::string wrong = objection(o, *e);
    if (!wrong.empty()) operations_.fail(number, wrong);
    const int from = e->from;
    if (e->how == kind::eager) {
        if (e->here) take_copy(number, *e);
        else if (e->posted) e->receive = number;
        else post_eager(e, number);
    } else if (e->how == kind::inlined) {
        if (wrong.empty() && e->said.bytes > 0) std::memcpy(o.to, e->said.payload.data(), e->said.bytes);
        end(number);
    } else if (e->local != nullptr) {
        if (wrong.empty() && e->said.bytes > 0) std::memcpy(o.to, e->local, e->said.bytes);
        end(e->said.message);
        end(number);
    } else if (!wrong.empty()) {
        tell(from, kind::refusal, e->said.message);
        end(number);
    } else {
        growing_.push_back(number);
        moved_ = true;
    }
    if (e->how != kind::rendezvous) give_credit(from);
}

void point_to_point::give_credit(int peer) {
    peer_state& p = peers_[peer];
    if (peer == net_.rank()) {
        ++p.credits;
        return;
    }
    if (++p.taken < window / 4) return;
    tell(peer, kind::credit, 0, static_cast<std::uint64_t>(std::exchange(p.taken, 0)));
}

// Copied messages of one rank have one tag, so that they are received in the order sent: those in front of the one that
// is asked for into copies. @param receive that takes this one; 0: none
void point_to_point::post_eager(const std::shared_ptr<envelope>& e, std::uint64_t receive) {
    auto& waiting = peers_[e->from].eager;
    while (true) {
        const std::shared_ptr<envelope> next = waiting.front();
        waiting.pop_front();
        next->posted = true;
        const bool direct = next == e && receive != 0 && !operations_.has_failed(receive);
        if (next == e) e->receive = receive;
        if (!direct) next->copy.resize(next->said.bytes);
        std::byte* to = direct ? operations_[receive].to : next->copy.data();
        eager_waiting_.push_back({next->from, to, next->said.bytes, direct ? nullptr : next, receive});
        moved_ = true;
        if (next == e) return;
    }
}

void point_to_point::take_copy(std::uint64_t number, envelope& e) noexcept {
    if (!operations_.has_failed(number) && e.said.bytes > 0)
        std::memcpy(operations_[number].to, e.copy.data(), e.said.bytes);
    end(number);
}

void point_to_point::drain() {
    for (auto& [peer, p] : peers_) {
        if (p.eager.empty()) continue;
        const std::shared_ptr<envelope> last = p.eager.back();  // the list lets it go
        post_eager(last, 0);
    }
}

}  // namespace terrace::detail
