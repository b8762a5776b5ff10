#include "api/plan_follower.hpp"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "base/index.hpp"
#include "base/quiet_task.hpp"
#include "calls/failure_state.hpp"
#include "plan/plan_yaml.hpp"
#include "planner/planner.hpp"
#include "planner/policy.hpp"
#include "schedule/slice.hpp"
#include "schedule/stage_groups.hpp"

namespace terrace::detail {

namespace {

constexpr int step = 5;                           // [%] rates are rounded to this, so similar rates share a plan
constexpr std::chrono::minutes longest_wait(10);  // between trials

// Returns the plan with at most as many lanes as the communicator has; nothing if the communicator cannot run it.
std::optional<plan_data> fitted(plan_data made, const plan_data& first, int lanes) {
    const int slots = lane_slots(first);
    if (mpi_groups(made) != mpi_groups(first)) return {};
    for (auto& [what, rules] : made.rules) {
        for (rule& r : rules) {
            if (uses_lane_slots(r) && slots == 0) return {};
            r.lanes = std::min(r.lanes, uses_lane_slots(r) ? std::min(lanes, slots) : lanes);
        }
    }
    return made;
}

}  // namespace

// Plans for unequal links have unequal shares, for which the planner uses up to many_lanes.
int most_lanes(const plan_data& p, const options& o) noexcept {
    return o.adapt == options::adapting::on ? std::max(policy.many_lanes, most_lanes(p)) : most_lanes(p);
}

// Rates are rounded down, since too many bytes on a link cost more time than too few.
void plan_follower::note(const slow_links::finding& f, const std::string& why) {
    for (const int link : f.links) {
        const auto percent = static_cast<int>(100 * f.rate / f.before / step) * step;
        if (f.is_slow) slow_[link] = std::max(step, percent);
        else slow_.erase(link);
    }
    why_ = why;
    slow_since_ = clock::now();
    trial_.is_on = false;
}

hierarchy plan_follower::machine(const link_rows& rows) const {
    hierarchy h = plan_.machine;
    for (const auto& [link, percent] : slow_) {
        const int row = rows.row_of(link), member = rows.member_of(link);
        const double part = percent / 100.0;
        if (row == rows.nic_row()) {
            h.nics.rates[at(member)] *= part;
        } else if (row == rows.spine_row()) {
            h.nics.spine *= part;
        } else {
            std::vector<double> rates;
            for (int m = 0; m < rows.members(row); ++m) rates.push_back(h.rate(row, m));
            rates[at(member)] *= part;
            h.levels[at(row)] = with_rates(h.levels[at(row)], std::move(rates));
        }
    }
    limit_to_nics(h);
    return h;
}

bool plan_follower::look(const link_rows& rows, const statistics& so_far, bool hurry) {
    changes_.look();
    if (making_.text.valid() && making_.text.wait_for(std::chrono::seconds(0)) != std::future_status::timeout) {
        std::string& text = plans_[making_.slow] = plan_.text;
        or_warn(options_, "no plan is made for the slow link: ", [&] { text = making_.text.get(); });
    }
    if (!changes_.is_idle()) return !trial_.is_on;
    const auto now = clock::now();
    if (running_.slow != proposed_) {
        running_ = {proposed_, now};
        return !trial_.is_on;
    }
    if (running_.slow == slow_ && std::exchange(announced_, slow_) != slow_)
        done_.push_back({static_cast<std::int64_t>(changes_.changed_at()), why_});
    change(rows, so_far, wanted(now, hurry));
    return false;
}

// Returns the slow links of the plan that should run. Trials take a ninth of the time at first, less if a link is slow
// for long, and at most a third if the link may have recovered.
const plan_follower::percents& plan_follower::wanted(clock::time_point now, bool hurry) {
    static const percents none;
    if (trial_.is_on && running_.slow == slow_) {
        trial_.is_on = false;
        trial_.took = now - trial_.since;
    }
    if (trial_.is_on) return now < running_.since + trial_.least ? none : slow_;
    if (slow_.empty() || running_.slow != slow_ || plans_[slow_] == plan_.text) return slow_;
    const auto wait = std::min<clock::duration>(longest_wait, std::max(8 * trial_.took, (now - slow_since_) / 4));
    if (now < running_.since + (hurry ? 2 * trial_.took : wait)) return slow_;
    trial_.is_on = true;
    trial_.since = now;
    return none;
}

void plan_follower::change(const link_rows& rows, const statistics& so_far, const percents& to) {
    if (to == running_.slow) return;
    if (const auto known = plans_.find(to); known != plans_.end() || to.empty()) {
        proposed_ = to;
        changes_.propose(to.empty() ? plan_.text : known->second);
    } else if (!making_.text.valid()) {
        make_plan(rows, so_far);
    }
}

void plan_follower::make_plan(const link_rows& rows, const statistics& so_far) {
    std::set<collective> called;
    for (const statistics::calls_of_size& c : so_far.calls)
        if (const std::optional<collective> what = parse_collective(c.call)) called.insert(*what);
    making_.slow = slow_;
    making_.text = start_quiet_task([this, h = machine(rows), called] {
        const std::vector<collective> all(called.begin(), called.end());
        std::optional<plan_data> p =
            fitted(replanned(plan_, h, all, options_.reproducible), plan_, most_lanes(plan_, options_));
        return p ? finished(std::move(*p)).text : plan_.text;
    });
}

}  // namespace terrace::detail
