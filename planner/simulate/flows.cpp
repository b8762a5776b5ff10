#include "planner/simulate/flows.hpp"

namespace terrace::detail {

namespace {

constexpr double same_rate = 1e-9;
constexpr std::size_t enough = 32;  // number of flows from which a sharing stops adding neighbours

}  // namespace

// Links that limit nothing come first in a flow's places.
int flows::add(std::span<const int> links) {
    flow& f = flows_.emplace_back();
    const auto here = [&] { return static_cast<std::uint32_t>(places_.size()); };
    f.begin = here();
    for (const bool limiting : {false, true}) {
        f.first = here();
        for (const int link : links) {
            if (loads_.limits(link) != limiting) continue;
            f.most = std::min(f.most, loads_.rate(link));
            places_.push_back({link, 0});
        }
    }
    f.end = here();
    return static_cast<int>(flows_.size()) - 1;
}

void flows::begin(int id, double bytes, double headers, double now) {
    flow& f = flows_[at(id)];
    f.left = bytes + headers;
    f.payload = headers > 0 ? bytes / f.left : 1;
    f.since = now;
    f.changed = true;
    touched_.push_back(id);
    if (f.active) return;  // the flow keeps the rate of its last transfer
    f.active = true;
    f.rate = 0;
    for (std::uint32_t i = f.first; i < f.end; ++i) {
        place& p = places_[i];
        link& l = links_[at(p.link)];
        p.position = static_cast<std::uint32_t>(l.through.size());
        l.through.emplace_back(id, i);
        l.wanted += f.most;
        if (contended(p.link)) dirty_.push_back(p.link);
    }
    collect_flow(id);
}

void flows::end(int id, double now) {
    flow& f = flows_[at(id)];
    for (const place& p : path(f)) loads_.add(p.link, f.since, now, f.left * f.payload);
    f.since = now;
    f.left = 0;
    touched_.push_back(id);  // another transfer may follow at once
}

void flows::leave(int id) {
    flow& f = flows_[at(id)];
    f.active = false;
    set_rate(f, 0);
    for (const place& p : limits(f)) {
        link& l = links_[at(p.link)];
        if (contended(p.link)) dirty_.push_back(p.link);
        const std::size_t moved = l.through.back().second;
        l.through[p.position] = l.through.back();
        places_[moved].position = p.position;
        l.through.pop_back();
        l.wanted -= f.most;
        if (l.through.empty()) l.wanted = l.used = 0;  // clears rounding errors
    }
}

// Counts the bytes that a flow has transferred at its rate.
void flows::settle(flow& f, double now) {
    if (now > f.since && f.rate > 0) {
        const double bytes = std::min(f.left, f.rate * (now - f.since));
        for (const place& p : path(f)) loads_.add(p.link, f.since, now, bytes * f.payload);
        f.left -= bytes;
    }
    f.since = now;
}

void flows::collect_flow(int id) {
    flow& f = flows_[at(id)];
    if (std::exchange(f.seen, true)) return;
    members_.push_back(id);
    for (const place& p : limits(f))
        if (contended(p.link)) collect_link(p.link);
}

// Each link shares the rate that flows other than these members do not use.
void flows::open_links() {
    open_.clear();
    for (const int id : reshared_) {
        if (!contended(id)) continue;
        link& l = links_[at(id)];
        l.spare = loads_.rate(id) - l.used;
        l.sharers.clear();
        l.waiting = 0;
        open_.push_back(id);
    }
    for (const int id : members_) {
        const flow& f = flows_[at(id)];
        for (const place& p : limits(f)) {
            if (!contended(p.link)) continue;
            link& l = links_[at(p.link)];
            l.spare += f.rate;
            l.sharers.push_back(id);
            ++l.waiting;
        }
    }
}

// Computes max-min fairness in rounds. Each round assigns the least share that any constraint allows: by a link to the
// flows that wait on it, or to a flow that can use no more.
void flows::fill() {
    open_links();
    for (left_ = members_; !left_.empty(); std::erase_if(left_, [&](int id) { return !flows_[at(id)].seen; })) {
        double least = std::numeric_limits<double>::infinity();
        std::erase_if(open_, [&](int l) { return links_[at(l)].waiting == 0; });
        for (const int l : open_) least = std::min(least, links_[at(l)].spare / links_[at(l)].waiting);
        for (const int id : left_) least = std::min(least, flows_[at(id)].most);
        least = std::max(least, 0.0);  // rounding may make it negative
        for (const int id : open_) {
            const link& l = links_[at(id)];
            if (l.spare > least * l.waiting * (1 + same_rate)) continue;
            for (const int f : l.sharers)
                if (flows_[at(f)].seen) settle_at(flows_[at(f)], least);
        }
        for (const int id : left_)
            if (flow& f = flows_[at(id)]; f.seen && f.most <= least * (1 + same_rate)) settle_at(f, least);
    }
}

// Returns the flows whose end time changes.
std::span<const int> flows::reshared(double now) {
    changed_.clear();
    if (touched_.empty() && dirty_.empty()) return changed_;
    for (const int id : touched_)
        if (flow& f = flows_[at(id)]; f.active && f.left == 0 && !f.changed) leave(id);
    for (const int l : dirty_) collect_link(l);
    dirty_.clear();
    // All flows on these links, and their neighbours if there are not too many.
    const std::size_t direct = reshared_.size();
    for (std::size_t next = 0; next < reshared_.size() && (next < direct || members_.size() < enough); ++next)
        for (const auto& [f, which] : links_[at(reshared_[next])].through) collect_flow(f);
    std::erase_if(members_, [&](int id) {
        if (!flows_[at(id)].active) flows_[at(id)].seen = false;
        return !flows_[at(id)].active;
    });
    fill();
    shares_ += static_cast<std::int64_t>(members_.size());
    for (const int id : members_) {
        flow& f = flows_[at(id)];
        if (f.share > f.rate * (1 - same_rate) && f.share < f.rate * (1 + same_rate)) continue;
        settle(f, now);
        set_rate(f, f.share);
        f.changed = true;
        changed_.push_back(id);
    }
    for (const int l : reshared_) links_[at(l)].seen = false;
    reshared_.clear();
    members_.clear();
    changed_.insert(changed_.end(), touched_.begin(), touched_.end());
    touched_.clear();
    std::erase_if(changed_, [&](int id) {
        flow& f = flows_[at(id)];
        return !std::exchange(f.changed, false) || !f.active;
    });
    return changed_;
}

}  // namespace terrace::detail
