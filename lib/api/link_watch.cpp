#include "api/link_watch.hpp"

#include <algorithm>
#include <ctime>
#include <utility>

#include <fmt/format.h>

#include "base/index.hpp"
#include "base/units.hpp"
#include "transport/team.hpp"

namespace terrace::detail {

namespace {

constexpr std::chrono::seconds until_begin(1);  // communicators with shorter lives are not watched
constexpr std::chrono::seconds patience(1);     // for reports of ranks that end
constexpr std::uint32_t windows_of_both = 4;    // windows that may have messages of both plans
constexpr std::size_t kept_windows = 240;       // a minute

std::string clock_text(std::chrono::duration<double> ago) {
    const std::time_t then = std::time(nullptr) - static_cast<std::time_t>(ago.count());
    std::tm parts{};
    gmtime_r(&then, &parts);
    return fmt::format("{:02}:{:02}:{:02} UTC", parts.tm_hour, parts.tm_min, parts.tm_sec);
}

}  // namespace

link_watch::link_watch(control_plane& control, recorder& events, const plan_data& p, const options& o,
                       const rank_numbers& ranks, int rank)
    : control_(control), plan_(p), options_(o), ranks_(ranks), rows_(p.machine) {
    const hierarchy& machine = p.machine;
    if (machine.node_levels() == machine.depth() || machine.has_torus() || o.place != options::placement::by_node)
        return;
    own_.judges = rank == 0 && (o.log || o.adapt == options::adapting::on);
    std::vector<bool> far;
    for (int r = 0; r < machine.ranks(); ++r)
        far.push_back(machine.shape.common_level(rank, r) >= machine.node_levels());
    events.record_messages(control.link_report.note(std::move(far)));
    if (own_.judges && o.adapt == options::adapting::on)
        follower_ = std::make_unique<plan_follower>(control.plan_change, p, o, control.link_report.every());
}

bool link_watch::has_new_window() {
    const auto now = clock::now();
    if (!control_.link_report.has_work(now)) return false;
    control_.router.receive();
    control_.link_report.look(now);
    if (!own_.judges) return false;
    if (!links_ && now - own_.since > until_begin) begin();
    return links_ && std::exchange(own_.window, control_.link_report.window(now)) != own_.window;
}

void link_watch::begin() {
    const int first = rows_.link(plan_.machine.node_levels(), 0, false);  // links inside nodes are not watched
    const auto path = [this, first](int from, int to) {
        std::vector<int> links;
        rows_.for_each_link(from, to, [&](int link, int, bool) {
            if (link >= first) links.push_back(link);
        });
        return links;
    };
    std::vector<slow_links::direction> all;
    for (int link = 0; link < rows_.links(); ++link) all.push_back({rows_.row_of(link), link ^ 1, rows_.rate(link)});
    links_ = std::make_unique<slow_links>(std::move(all), path, control_.link_report.every());
    control_.link_report.begin([this](std::uint32_t window, int rank, int peer, bool sends, const message_sample& s) {
        links_->add(window, sends ? rank : peer, sends ? peer : rank, sends, s);
    });
}

void link_watch::judge(const statistics& s) {
    calls_so_far now{own_.window};
    for (const statistics::calls_of_size& c : s.calls) {
        now.calls += static_cast<double>(c.calls);
        now.seconds += c.seconds;
    }
    calls_.push_back(now);
    if (calls_.size() > kept_windows) calls_.pop_front();
    for (const slow_links::finding& f : links_->judge(own_.window)) {
        const std::string text = text_of(f);
        if (options_.log) options_.log(log_level::warn, text + cost(f));
        if (follower_) follower_->note(f, text);
    }
    if (!follower_) return;
    if (follower_->look(rows_, s, links_->may_be_back())) own_.forgets_until = own_.window + windows_of_both;
    if (own_.window <= own_.forgets_until) links_->forget();
}

std::string link_watch::text_of(const slow_links::finding& f) const {
    std::string names;
    for (const int link : f.links) names += (names.empty() ? "" : ", or ") + name_of(link);
    if (!f.is_slow) return names + " carries what it carried before";
    return fmt::format("{} carries {}, {:.0f} % of what it carried before, since {}", names, format_bandwidth(f.rate),
                       100 * f.rate / f.before, clock_text((own_.window - f.since) * message_times::window));
}

std::string link_watch::name_of(int link) const {
    const int row = rows_.row_of(link), member = rows_.member_of(link);
    std::vector<int> ranks;
    for (int r = 0; r < plan_.machine.ranks(); ++r)
        if (rows_.member_of(row, r) == member) ranks.push_back(ranks_.callers[at(r)]);
    std::ranges::sort(ranks);
    const std::string of = ranks_named(ranks, ranks_.world);
    if (rows_.is_level(row)) return fmt::format("the link of {} into {}", of, rows_.name(row));
    if (row == rows_.nic_row()) return fmt::format("the NIC of {}", of);
    return fmt::format("the spine link of rail {}", member);
}

std::string link_watch::cost(const slow_links::finding& f) const {
    const auto from = std::ranges::find_if(calls_, [&](const calls_so_far& c) { return c.window >= f.since; });
    if (!f.is_slow || from == calls_.end()) return {};
    const calls_so_far &first = calls_.front(), &last = calls_.back();
    if (from->calls <= first.calls || last.calls <= from->calls) return {};
    return fmt::format(": calls take {} instead of {}",
                       format_duration((last.seconds - from->seconds) / (last.calls - from->calls)),
                       format_duration((from->seconds - first.seconds) / (from->calls - first.calls)));
}

// Failed ranks send nothing, so the wait is limited.
void link_watch::end() {
    control_.plan_change.end(control_.link_report.is_open());
    control_.link_report.end();
    const auto until = clock::now() + patience;
    do {
        control_.router.receive();
        control_.router.net().wire().idle();
    } while (control_.link_report.is_open() && clock::now() < until && !control_.router.net().fault());
}

}  // namespace terrace::detail
