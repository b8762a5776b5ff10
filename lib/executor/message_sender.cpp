// point_to_point: the sender's side.

#include <cstring>
#include <utility>

#include "base/index.hpp"
#include "executor/point_to_point.hpp"

namespace terrace::detail {

void point_to_point::dispatch(std::uint64_t number) {
    const operation o = active_.at(number);
    peer_state& p = peers_[o.what.rank];
    const bool self = o.what.rank == net_.rank();
    kind how = p.credits > 0 && o.what.bytes <= inline_bytes ? kind::inlined : kind::rendezvous;
    int slot = -1;
    if (how == kind::rendezvous && p.credits > 0 && o.what.bytes <= eager_bytes) {
        slot = self ? 0 : slots_.take(slots::eager_out, number);
        if (slot >= 0) how = kind::eager;
    }
    if (how != kind::rendezvous) {
        --p.credits;
        end(number);
    }
    if (self) return keep_for_self(o, how, number);
    announce(o, how, number);
    if (how != kind::eager) return;
    std::vector<std::byte>& copy = copies_[at(slot)];
    copy.assign(o.from, o.from + o.what.bytes);
    ++eager_in_flight_;
    net_.send(wire_slot(slot), o.what.rank, eager_tag, copy.data(), copy.size());
}

void point_to_point::announce(const operation& o, kind how, std::uint64_t number) {
    message_note n{.what = how, .type = o.what.type, .tag = o.what.tag, .number = number, .size = o.what.bytes};
    if (how == kind::inlined && o.what.bytes > 0) std::memcpy(n.payload.data(), o.from, o.what.bytes);
    net_.wire().send_note(o.what.rank, n.packed());
}

void point_to_point::keep_for_self(const operation& o, kind how, std::uint64_t number) {
    auto e = std::make_shared<envelope>();
    e->from = o.what.rank;
    e->tag = o.what.tag;
    e->type = o.what.type;
    e->bytes = o.what.bytes;
    e->how = how;
    e->sender = number;
    if (how == kind::inlined && e->bytes > 0) std::memcpy(e->payload.data(), o.from, e->bytes);
    if (how == kind::eager) e->copy.assign(o.from, o.from + e->bytes);
    e->posted = e->here = how == kind::eager;
    if (how == kind::rendezvous) e->local = o.from;
    arrived(std::move(e));
}

void point_to_point::tell(int peer, kind what, std::uint64_t number, std::uint64_t count) {
    net_.wire().send_note(peer, message_note{.what = what, .number = number, .size = count}.packed());
}

}  // namespace terrace::detail
