#include "api/elastic/elastic_core.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

#include "api/elastic/ucx_generation.hpp"
#include "api/parts.hpp"
#include "base/at_end.hpp"
#include "base/index.hpp"
#include "transport/store_bootstrap.hpp"

namespace terrace::detail {

namespace {

// The store of one generation.
store part_of(const store& all, const std::string& generation, int rank, int size) {
    const std::string prefix = fmt::format("members/{}/", generation);
    store part{.rank = rank,
               .size = size,
               .put = [all, prefix](const std::string& key, const std::string& value) { all.put(prefix + key, value); },
               .get = [all, prefix](const std::string& key) { return all.get(prefix + key); }};
    if (all.remove) part.remove = [all, prefix](const std::string& key) { all.remove(prefix + key); };
    return part;
}

}  // namespace

elastic_core::elastic_core(store in, int founders, options o) : in_(std::move(in)), options_(std::move(o)) {
    expect_usable();
    if (founders < 1 || founders > in_.size || in_.rank >= founders)
        throw usage_error(fmt::format(
            "elastic::begin: {} of at most {} members begin, and this one has number {}: the numbers of those are 0 "
            "... {}; others call elastic::join",
            founders, in_.size, in_.rank, founders - 1));
    for (int n = 0; n < founders; ++n) now_.numbers.push_back(n);
    store all = in_;
    all.size = founders;
    comm_.emplace(create_generation({std::move(all), options_.timeout, nullptr}, options_, plans_));
}

elastic_core::~elastic_core() = default;

void elastic_core::expect_usable() const {
    if (options_.failure_timeout.count() <= 0)
        throw usage_error("an elastic job looks for failures: set options::failure_timeout above 0");
    if (!options_.plan_file.empty())
        throw usage_error(
            "an elastic job is planned as its members change: leave out options::plan_file (TERRACE_PLAN)");
    if (in_.rank < 0 || in_.rank >= in_.size)
        throw usage_error(
            fmt::format("number {} of {}: numbers are 0 ... size - 1 (store::rank, TERRACE_RANK)", in_.rank, in_.size));
}

communicator& elastic_core::comm() {
    if (comm_) return *comm_;
    throw usage_error("this process has left the elastic job");
}

communicator elastic_core::create(const elastic_invitation& next, std::function<void()> look) {
    const auto own = std::find(next.to.numbers.begin(), next.to.numbers.end(), in_.rank) - next.to.numbers.begin();
    return create_generation({part_of(in_, next.name, static_cast<int>(own), static_cast<int>(next.to.numbers.size())),
                              patience(), std::move(look)},
                             options_, plans_);
}

// All members have the results of an iteration once one of them has ended it, since each has made its last call.
bool elastic_core::iterate(const std::function<void(communicator&)>& work) {
    comm();
    const std::uint64_t before = now_.iterations;
    try {
        if (!due_.empty()) change();
        if (!comm_) return false;
        if (changed_ && synchronise_) synchronise_(*comm_);
        changed_ = false;
        work(*comm_);
        end_iteration();
    } catch (const rank_failed_error& e) {
        if (options_.log) options_.log(log_level::warn, fmt::format("iteration {}: {}", before, e.what()));
        recover();
    }
    return now_.iterations > before;
}

void elastic_core::end_iteration() {
    std::vector<std::uint64_t> says(at(in_.size), stays);
    if (leaving_) says[at(in_.rank)] = leaves;
    if (comm_->rank() == 0) requests_.look(now_.numbers, says);
    comm_->allreduce(says, reduce_op::max);
    ++now_.iterations;
    for (int n = 0; n < in_.size; ++n) {
        const std::uint64_t said = says[at(n)];
        if (said == leaves) due_.leave.insert(n);
        if (said > leaves && !requests_.is_refused(said)) due_.join.emplace(n, said);
    }
}

// Members that have failed meanwhile end it on all: requests come again, and so do those to leave.
void elastic_core::change() {
    const change_of_members due = std::exchange(due_, {});
    const elastic_invitation next = agree_on_next(due);
    const bool stays_here = !due.leave.contains(in_.rank);
    std::optional<communicator> made;
    const at_end give_up([&] {
        if (made) core_of(*made).abort(creation_given_up);
    });
    const bool all = all_make(core_of(*comm_), [&](const auto& look) {
        if (stays_here) made.emplace(create(next, look));
    });
    if (!due.join.empty()) in_.put(outcome_of(next.name), all ? "made" : given_up_text);
    if (!all) {
        for (const auto& [number, token] : due.join) requests_.refuse(token);
        return;
    }
    comm_.reset();
    if (stays_here) comm_.emplace(std::move(*made));
    made.reset();
    now_ = {next.to.numbers, next.to.generation, now_.iterations};
    changed_ = true;
}

elastic_invitation elastic_core::agree_on_next(const change_of_members& due) {
    std::uint64_t name = comm_->rank() == 0 ? random_number() : 0;
    comm_->allreduce(std::span(&name, 1), reduce_op::max);
    elastic_invitation next{fmt::format("{:016x}", name), {{}, now_.generation + 1, now_.iterations}};
    for (const int n : now_.numbers)
        if (!due.leave.contains(n)) next.to.numbers.push_back(n);
    for (const auto& [number, token] : due.join) next.to.numbers.push_back(number);
    if (comm_->rank() != 0) return next;
    for (const auto& [number, token] : due.join) in_.put(fmt::format("invite/{:x}", token), text_of(next));
    return next;
}

// Again if more fail meanwhile.
void elastic_core::recover() {
    due_ = {};
    changed_ = true;
    for (bool done = false; !done;) {
        try {
            *comm_ = comm_->shrink();
            compare_counts();
            done = true;
        } catch (const rank_failed_error&) {
            // shrink() again
        }
    }
}

// An iteration that any member has ended counts.
void elastic_core::compare_counts() {
    const std::array<std::uint64_t, 3> mine{static_cast<std::uint64_t>(in_.rank), now_.iterations, now_.generation};
    std::vector<std::uint64_t> all(3 * at(comm_->size()));
    comm_->allgather(mine, all);
    now_.numbers.clear();
    for (std::size_t i = 0; i < all.size(); i += 3) {
        now_.numbers.push_back(static_cast<int>(all[i]));
        now_.iterations = std::max(now_.iterations, all[i + 1]);
        now_.generation = std::max(now_.generation, all[i + 2]);
    }
    ++now_.generation;
}

}  // namespace terrace::detail
