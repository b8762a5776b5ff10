#pragma once

#include <cstddef>
#include <deque>
#include <map>
#include <optional>
#include <utility>
#include <vector>

namespace terrace::detail {

/// Messages to one peer leave in the order sent, one at a time. Networks do that by themselves; a simulator lets all
/// that are on their way share a link equally, so that chunks that begin together end together, and no stage of one
/// ever runs beside another of the other.
class send_queue {
public:
    struct message {
        int slot, peer, tag;
        const void* from;
        std::size_t bytes;
    };

    /// Whether it may leave at once; else it is kept until next() hands it out.
    bool may_leave(const message& m) {
        line& to = peers_[m.peer];
        if (to.busy) to.kept.push_back(m);
        return !std::exchange(to.busy, true);
    }

    /// A message to the peer is there.
    void left(int peer) {
        peers_[peer].busy = false;
        freed_.push_back(peer);
    }

    /// One that may leave now, if any.
    std::optional<message> next() {
        for (; !freed_.empty(); freed_.pop_back()) {
            line& to = peers_[freed_.back()];
            if (to.kept.empty() || to.busy) continue;
            const message m = to.kept.front();
            to.kept.pop_front();
            to.busy = true;
            return m;
        }
        return {};
    }

private:
    struct line {
        bool busy = false;
        std::deque<message> kept;
    };
    std::map<int, line> peers_;
    std::vector<int> freed_;
};

}  // namespace terrace::detail
