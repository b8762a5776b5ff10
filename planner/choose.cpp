#include "planner/choose.hpp"

#include <algorithm>
#include <utility>

#include "planner/policy.hpp"
#include "planner/simulated_choice.hpp"
#include "planner/tuning.hpp"

namespace terrace::detail {

namespace {

class rule_maker {
public:
    rule_maker(const hierarchy& machine, std::span<const priced_candidate> list, std::vector<std::size_t> floor,
               bool reproducible)
        : screen_(machine, list, std::move(floor)),
          trials_(machine, list.front().cost.what(), reproducible),
          limit_of_byte_(limit(machine, 1, list.front().cost.what())),
          reproducible_(reproducible) {}

    std::vector<rule> run() {
        return for_all_sizes([&](std::int64_t bytes) { append(bytes); });
    }

    std::vector<rule> run_by_place(std::size_t place) {
        return for_all_sizes([&](std::int64_t bytes) {
            std::vector<std::size_t> by_price = screen_.tuned();
            std::stable_sort(by_price.begin(), by_price.end(),
                             [&](std::size_t a, std::size_t b) { return screen_.how(a).time < screen_.how(b).time; });
            chosen_ = by_price[std::min(place, by_price.size() - 1)];
            add(screen_.how(chosen_), bytes);
        });
    }

private:
    template <class Append>
    std::vector<rule> for_all_sizes(Append&& append_one) {
        for (std::int64_t bytes = policy.smallest_size; bytes <= policy.largest_size; bytes *= 2) {
            screen_.tune_for(bytes);
            append_one(bytes);
        }
        rules_.back().up_to = rule::no_bound;
        return std::move(rules_);
    }

    // Rules for more than half of `bytes` and at most that.
    void append(std::int64_t bytes) {
        const std::vector<std::size_t> fast_enough = screen_.fast_enough(bytes / 2, bytes);
        chosen_ = pick(screen_, fast_enough, chosen_, bytes);
        choice chosen{chosen_, screen_.how(chosen_)};
        if (reproducible_) {
            if (bytes > policy.largest_uncut) chosen = choose_reproducible(trials_, screen_, chosen, bytes);
        } else if (worth_simulating(screen_, chosen, bytes))
            chosen = choose_by_simulation(trials_, screen_, chosen, fast_enough, bytes / 2, bytes);
        if (fast_enough.empty() && chosen.how.simulated == 0) return divide(bytes / 2, bytes, policy.finest_parts);
        chosen_ = chosen.candidate;
        add(chosen.how, bytes);
    }

    // Where those of the floor cross between two sizes, and nothing is about as fast as both, more bounds are needed.
    void divide(std::int64_t low, std::int64_t high, std::int64_t parts) {
        const std::vector<std::size_t> fast_enough = screen_.fast_enough(low, high, policy.worth_a_lane);
        if (!fast_enough.empty() || parts == 1 || high - low < 2) {
            chosen_ = pick(screen_, fast_enough, chosen_, high);
            return add(screen_.how(chosen_), high);
        }
        const std::int64_t middle = low + (high - low) / 2;
        divide(low, middle, parts / 2);
        divide(middle, high, parts / 2);
    }

    // The chosen candidate, run in this way for up to so many bytes.
    void add(tuning how, std::int64_t high) {
        const priced_candidate& c = screen_[chosen_];
        how.time = screen_.time(chosen_, how, static_cast<double>(high));
        rule next = rule_of(c.what, how, high, limit_of_byte_ * static_cast<double>(high));
        if (!rules_.empty() && run_alike(rules_.back(), next)) rules_.back() = std::move(next);
        else rules_.push_back(std::move(next));
    }

    screen screen_;
    trials trials_;
    double limit_of_byte_;  // [s]
    bool reproducible_;
    std::size_t chosen_ = no_candidate;  // for the size below
    std::vector<rule> rules_;
};

}  // namespace

std::vector<rule> make_rules(const hierarchy& machine, std::span<const priced_candidate> list,
                             std::vector<std::size_t> floor, bool reproducible) {
    return rule_maker(machine, list, std::move(floor), reproducible).run();
}

std::vector<rule> rules_by_place(const hierarchy& machine, std::span<const priced_candidate> list, std::size_t place) {
    return rule_maker(machine, list, {}, false).run_by_place(place);
}

}  // namespace terrace::detail
