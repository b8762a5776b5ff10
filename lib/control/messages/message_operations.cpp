#include "control/messages/message_operations.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "base/index.hpp"

namespace terrace::detail {

std::uint64_t message_operations::begin(message_operation o) {
    if (events_.keeps_everything()) {
        const auto unused = std::find(rows_.begin(), rows_.end(), false);
        o.row = static_cast<int>(unused - rows_.begin());
        if (unused == rows_.end()) rows_.push_back(true);
        else *unused = true;
        o.since = std::chrono::steady_clock::now();
    }
    active_.emplace(++numbers_, o);
    return numbers_;
}

void message_operations::end(std::uint64_t number) {
    const auto found = active_.find(number);
    const message_operation o = found->second;
    active_.erase(found);
    if (!o.sends && o.result != nullptr)
        *o.result = {callers_rank_[at(o.source)], static_cast<std::int64_t>(o.bytes / size_of(o.what.type))};
    if (o.row < 0) return;
    rows_[at(o.row)] = false;
    const int peer = callers_rank_[at(o.sends ? o.what.rank : o.source)];
    events_.add(fmt::format("messages {}", o.row),
                fmt::format("{} rank {}, tag {}, {} bytes", o.sends ? "send to" : "recv from", peer, o.what.tag,
                            o.sends ? o.what.bytes : o.bytes),
                o.since, std::chrono::steady_clock::now());
}

std::chrono::duration<double> message_operations::age() const noexcept {
    std::chrono::duration<double> longest{};
    for (const auto& [number, since] : awaited_)
        if (!done(number))
            longest = std::max<std::chrono::duration<double>>(longest, std::chrono::steady_clock::now() - since);
    return longest;
}

void message_operations::add_wait(const message_operation& o, waiting& all) const {
    const int peer = o.sends ? o.what.rank : o.source >= 0 ? o.source : o.what.rank;
    if (peer == any_source) {
        all.ranks.insert(callers_rank_.begin(), callers_rank_.end());
        all.ranks.erase(callers_rank_[at(own_)]);
        all.lines.push_back(fmt::format("recv from any rank, tag {}: no rank has sent it", o.what.tag));
        return;
    }
    const int rank = callers_rank_[at(peer)];
    const char* state = o.sends         ? "it has not received all of it"
                        : o.source >= 0 ? "not all has come"
                                        : "it has not sent it";
    all.add(rank, fmt::format("{} rank {}, tag {}: {}", o.sends ? "send to" : "recv from", rank, o.what.tag, state));
}

}  // namespace terrace::detail
