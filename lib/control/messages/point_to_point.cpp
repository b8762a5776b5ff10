#include "control/messages/point_to_point.hpp"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

namespace terrace::detail {

point_to_point::point_to_point(control_router& router, int first_slot, const std::vector<int>& callers_rank,
                               recorder& events)
    : control_service(router, service::messages),
      first_slot_(first_slot),
      operations_(net_.rank(), callers_rank, events) {}

std::size_t point_to_point::pieces_of(std::size_t bytes) const noexcept {
    const std::size_t segment = net_.wire().traits().segment, most = segment > 0 ? segment : std::size_t{1} << 30;
    return std::max(div_ceil(bytes, most), std::size_t{1});
}

// ---- operations -----------------------------------------------------------------------------------------------------

std::uint64_t point_to_point::send(const callers_message& m, const void* from) {
    const std::uint64_t number =
        operations_.begin({.what = m, .sends = true, .from = static_cast<const std::byte*>(from)});
    net_.expect_control(true);
    dispatch(number);
    return number;
}

std::uint64_t point_to_point::recv(const callers_message& m, void* to, received* result) {
    const std::uint64_t number = operations_.begin({.what = m, .to = static_cast<std::byte*>(to), .result = result});
    net_.expect_control(true);
    const auto found = std::ranges::find_if(unexpected_, [&](auto& e) { return matches(operations_[number], *e); });
    if (found == unexpected_.end()) {
        receives_.push_back(number);
        return number;
    }
    const std::shared_ptr<envelope> e = *found;
    unexpected_.erase(found);
    deliver(number, e);
    return number;
}

// ---- sending --------------------------------------------------------------------------------------------------------

void point_to_point::dispatch(std::uint64_t number) {
    const operation o = operations_[number];
    peer_state& p = peers_[o.what.rank];
    const bool self = o.what.rank == net_.rank();
    kind how = p.credits > 0 && o.what.bytes <= inline_bytes ? kind::inlined : kind::rendezvous;
    int slot = -1;
    if (how == kind::rendezvous && p.credits > 0 && o.what.bytes <= eager_bytes) {
        slot = self ? 0 : slots_.acquire(slots::eager_out, number);
        if (slot >= 0) how = kind::eager;
    }
    if (how != kind::rendezvous) {
        --p.credits;
        end(number);
    }
    description d{.message = number, .bytes = o.what.bytes, .type = static_cast<std::uint64_t>(o.what.type)};
    if (how == kind::inlined && d.bytes > 0) std::memcpy(d.payload.data(), o.from, d.bytes);
    if (self) return keep_for_self(o, how, d);
    send_control(o.what.rank, how, {.number = static_cast<std::uint32_t>(o.what.tag)}, d);
    if (how != kind::eager) return;
    std::vector<std::byte>& copy = slots_.copy_of(slot);
    copy.assign(o.from, o.from + o.what.bytes);
    net_.send(wire_slot(slot), o.what.rank, eager_tag, copy.data(), copy.size());
}

void point_to_point::keep_for_self(const operation& o, kind how, const description& d) {
    auto e = std::make_shared<envelope>(envelope{o.what.rank, o.what.tag, how, d});
    if (how == kind::eager) e->copy.assign(o.from, o.from + d.bytes);
    e->posted = e->here = how == kind::eager;
    if (how == kind::rendezvous) e->local = o.from;
    arrived(std::move(e));
}

// ---- receiving ------------------------------------------------------------------------------------------------------

void point_to_point::receive(int from, const control_frame& f) {
    const auto what = static_cast<kind>(f.kind);
    const auto header = f.get<description>();
    if (what == kind::grant) return void(granted_.emplace_back(header.message, f.number));
    if (what == kind::refusal) return end(header.message);
    if (what == kind::credit) return void(peers_[from].credits += static_cast<int>(f.number));
    auto e = std::make_shared<envelope>(envelope{from, static_cast<int>(f.number), what, header});
    if (what == kind::eager) peers_[from].eager.push_back(e);
    arrived(std::move(e));
}

void point_to_point::arrived(std::shared_ptr<envelope> e) {
    moved_ = true;
    const auto found = std::ranges::find_if(receives_, [&](std::uint64_t r) { return matches(operations_[r], *e); });
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
    const auto type = static_cast<element_type>(e.header.type);
    if (type == receive.what.type && e.header.bytes <= receive.what.bytes) return {};
    return fmt::format("recv: the message of rank {} with tag {} has {}, but the buffer {}; the message is lost",
                       operations_.callers_rank(e.from), e.tag, text(e.header.bytes, type),
                       type == receive.what.type ? fmt::format("has room for {}", receive.what.bytes / size_of(type))
                                                 : "is of " + text(receive.what.bytes, receive.what.type));
}

// Begins the transfer of a message that a receive has matched. The receive now waits only for this message.
void point_to_point::deliver(std::uint64_t number, const std::shared_ptr<envelope>& e) {
    operation& o = operations_[number];
    o.source = e->from;
    o.bytes = e->header.bytes;
    o.sender = e->header.message;
    const std::string wrong = objection(o, *e);
    if (!wrong.empty()) operations_.fail(number, wrong);
    const int from = e->from;
    if (e->how == kind::eager) {
        if (e->here) take_copy(number, *e);
        else if (e->posted) e->receive = number;
        else post_eager(e, number);
    } else if (e->how == kind::inlined) {
        if (wrong.empty() && e->header.bytes > 0) std::memcpy(o.to, e->header.payload.data(), e->header.bytes);
        end(number);
    } else if (e->local != nullptr) {
        if (wrong.empty() && e->header.bytes > 0) std::memcpy(o.to, e->local, e->header.bytes);
        end(e->header.message);
        end(number);
    } else if (!wrong.empty()) {
        send_number(from, kind::refusal, e->header.message);
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
    send_number(peer, kind::credit, 0, static_cast<std::uint64_t>(std::exchange(p.taken, 0)));
}

// Posts the receive of an eager message. All eager messages of a rank have one tag, so they arrive in the order sent,
// and earlier ones are received into copies. @param receive number of the receive that has matched it; 0: none
void point_to_point::post_eager(const std::shared_ptr<envelope>& e, std::uint64_t receive) {
    auto& waiting = peers_[e->from].eager;
    while (true) {
        const std::shared_ptr<envelope> next = waiting.front();
        waiting.pop_front();
        next->posted = true;
        const bool direct = next == e && receive != 0 && !operations_.has_failed(receive);
        if (next == e) e->receive = receive;
        if (!direct) next->copy.resize(next->header.bytes);
        std::byte* to = direct ? operations_[receive].to : next->copy.data();
        eager_waiting_.push_back({next->from, to, next->header.bytes, direct ? nullptr : next, receive});
        moved_ = true;
        if (next == e) return;
    }
}

void point_to_point::take_copy(std::uint64_t number, envelope& e) noexcept {
    if (!operations_.has_failed(number) && e.header.bytes > 0)
        std::memcpy(operations_[number].to, e.copy.data(), e.header.bytes);
    end(number);
}

void point_to_point::drain() {
    for (auto& [peer, p] : peers_) {
        if (p.eager.empty()) continue;
        const std::shared_ptr<envelope> last = p.eager.back();  // a copy, since the list drops its own
        post_eager(last, 0);
    }
}

// ---- moving on ------------------------------------------------------------------------------------------------------

// Posts receives of pieces of a message, and grants as many pieces to the sender.
void point_to_point::grow(std::uint64_t number) {
    constexpr std::size_t most_pieces = 4;  // pieces of a message in flight at once
    operation& o = operations_[number];
    const std::size_t each = piece_bytes(o.bytes), all = pieces_of(o.bytes);
    std::uint64_t more = 0;
    while (o.posted < all && o.posted - o.over < most_pieces) {
        const int slot = slots_.acquire(slots::pieces_in, number);
        if (slot < 0) break;
        const std::size_t begin = o.posted++ * each;
        net_.recv(wire_slot(slot), o.source, piece_tag, o.to + begin, std::min(each, o.bytes - begin));
        ++more;
    }
    if (more > 0) send_number(o.source, kind::grant, o.sender, more);
    if (o.posted == 0) growing_.push_back(number);  // no slot is free: tried again later
    moved_ |= more > 0;
}

bool point_to_point::progress() {
    for (std::size_t n = eager_waiting_.size(); n > 0 && slots_.has(slots::eager_in); --n) {
        eager_receive& next = eager_waiting_.front();
        const int slot = slots_.acquire(slots::eager_in, next.receive, next.copied);
        net_.recv(wire_slot(slot), next.peer, eager_tag, next.to, next.bytes);
        eager_waiting_.pop_front();
        moved_ = true;
    }
    for (std::size_t n = growing_.size(); n > 0 && slots_.has(slots::pieces_in); --n) {
        const std::uint64_t next = growing_.front();
        growing_.pop_front();
        grow(next);
    }
    while (!granted_.empty() && slots_.has(slots::pieces_out)) {
        auto& [number, count] = granted_.front();
        operation& o = operations_[number];
        const std::size_t each = piece_bytes(o.what.bytes), begin = o.posted++ * each;
        const int slot = slots_.acquire(slots::pieces_out, number);
        net_.send(wire_slot(slot), o.what.rank, piece_tag, o.from + begin, std::min(each, o.what.bytes - begin));
        if (--count == 0) granted_.pop_front();
        moved_ = true;
    }
    return std::exchange(moved_, false);
}

void point_to_point::complete(int wire_slot) noexcept {
    const auto [number, copied, from] = slots_.release(wire_slot - first_slot_);
    if (from == slots::eager_out) return;
    if (from == slots::eager_in) {
        if (!copied) return end(number);
        copied->here = true;
        if (copied->receive != 0) take_copy(copied->receive, *copied);
        return;
    }
    operation& o = operations_[number];
    const std::size_t all = pieces_of(o.sends ? o.what.bytes : o.bytes);
    if (++o.over == all) end(number);
    else if (!o.sends && o.posted < all && std::find(growing_.begin(), growing_.end(), number) == growing_.end())
        net_.wire().or_fail([&, again = number] { growing_.push_back(again); });
}

}  // namespace terrace::detail
