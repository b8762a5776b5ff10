#include "api/elastic/elastic_core.hpp"

#include <algorithm>
#include <array>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include <terrace/elastic.hpp>

#include "api/parts.hpp"
#include "base/at_end.hpp"
#include "base/index.hpp"
#include "transport/packed.hpp"
#include "transport/store_bootstrap.hpp"

namespace terrace::detail {

namespace {

using clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds between_requests(50);  // interval at which rank 0 reads requests
constexpr milliseconds between_answers(2);    // interval at which a joining process polls

std::string request_of(int number) { return fmt::format("join/{}", number); }
std::string seen_of(std::uint64_t token) { return fmt::format("seen/{:x}", token); }
std::string ready_of(std::uint64_t token) { return fmt::format("ready/{:x}", token); }
std::string invitation_of(std::uint64_t token) { return fmt::format("invite/{:x}", token); }

// Values of members at the end of an iteration, by number. Tokens of processes that request to join are larger.
constexpr std::uint64_t stays = 0, leaves = 1;

// Key of the outcome of a generation, and its value if the generation is given up.
std::string outcome_of(const std::string& generation) { return "outcome/" + generation; }
constexpr const char* given_up_text = "given up";

// Thrown if the members have given up the generation that this process joins.
struct given_up {};

template <class Done>
bool comes_true(std::chrono::duration<double> limit, Done done) {
    const auto begin = clock::now();
    while (!done()) {
        if (limit.count() > 0 && clock::now() - begin > limit) return false;
        std::this_thread::sleep_for(between_answers);
    }
    return true;
}

// Returns the text of an invitation in the store.
std::string text_of(const elastic_invitation& i) {
    packed text{i.name, std::to_string(i.to.generation), std::to_string(i.to.iterations)};
    for (const int n : i.to.numbers) text.add(std::to_string(n));
    return text.bytes();
}

elastic_invitation invitation_in(const std::string& text) {
    const packed words(text);
    const auto number = [&](int i) { return std::stoull(std::string(words.value(i))); };
    elastic_invitation found{std::string(words.value(0)), {{}, number(1), number(2)}};
    for (int i = 3; i < words.size(); ++i) found.to.numbers.push_back(static_cast<int>(number(i)));
    return found;
}

// Returns the part of the store for one generation.
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
    comm_.emplace(create_generation(all, options_.timeout, nullptr, options_, plans_));
}

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

communicator elastic_core::create(const elastic_invitation& next, const std::function<void()>& look) {
    const int own = position_of(in_.rank, next.to.numbers), size = static_cast<int>(next.to.numbers.size());
    return create_generation(part_of(in_, next.name, own, size), patience(), look, options_, plans_);
}

// Once one member has ended an iteration, all members have its results, since each has made its last call.
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
    if (comm_->rank() == 0) look_for_requests(says);
    comm_->allreduce(says, reduce_op::max);
    ++now_.iterations;
    for (int n = 0; n < in_.size; ++n) {
        const std::uint64_t said = says[at(n)];
        if (said == leaves) due_.leave.insert(n);
        if (said > leaves && !requests_.refused.contains(said)) due_.join.emplace(n, said);
    }
}

// If members fail meanwhile, all members drop the change. Requests to join and to leave are then repeated.
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
        for (const auto& [number, token] : due.join) requests_.refused.insert(token);
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
    for (const auto& [number, token] : due.join) in_.put(invitation_of(token), text_of(next));
    return next;
}

// Repeats if further members fail meanwhile.
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

// Exchanges the counts of all members. An iteration that any member has ended counts.
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

// ---- joining: requests of processes, and answers of the members

elastic_core::elastic_core(store in, options o) : in_(std::move(in)), options_(std::move(o)) {
    expect_usable();
    const auto begin = clock::now();
    while (!comm_) {
        std::uint64_t token = random_number();
        while (token <= leaves) token = random_number();
        const std::chrono::duration<double> left = options_.timeout - (clock::now() - begin);
        const std::optional<elastic_invitation> i = await_invitation(token, left);
        if (!i)
            throw timeout_error(fmt::format(
                "elastic::join: timed out after {:g} s (options::timeout): no member has let number {} in; does the "
                "job run, and has no member this number?",
                options_.timeout.count(), in_.rank));
        if (accept(*i)) in_.put(request_of(in_.rank), "");
        if (!in_.remove) continue;
        for (const std::string& key : {seen_of(token), ready_of(token), invitation_of(token)}) in_.remove(key);
    }
}

std::optional<elastic_invitation> elastic_core::await_invitation(std::uint64_t token,
                                                                 std::chrono::duration<double> limit) const {
    if (options_.timeout.count() > 0 && limit.count() <= 0) return {};
    in_.put(request_of(in_.rank), fmt::format("{:x}", token));
    std::optional<std::string> text;
    bool said = false;
    const bool came = comes_true(options_.timeout.count() > 0 ? limit : options_.timeout, [&] {
        if (!said && in_.get(seen_of(token))) {
            in_.put(ready_of(token), "");
            said = true;
        }
        text = in_.get(invitation_of(token));
        return text.has_value();
    });
    if (!came) return {};
    return invitation_in(*text);
}

// Returns false if the members go on without this process, which then repeats its request.
bool elastic_core::accept(const elastic_invitation& i) {
    std::optional<communicator> made;
    const at_end give_up([&] {
        if (made) core_of(*made).abort(creation_given_up);
    });
    std::optional<std::string> outcome;
    const auto look = [&] { return (outcome = in_.get(outcome_of(i.name))).has_value(); };
    try {
        made.emplace(create(i, [&] {
            if (look() && *outcome == given_up_text) throw given_up();
        }));
    } catch (const given_up&) {
        return false;
    } catch (const error& e) {
        if (options_.log) options_.log(log_level::warn, fmt::format("elastic::join: {}; asks again", e.what()));
        return false;
    }
    if (!comes_true(patience(), look) || *outcome == given_up_text) return false;
    comm_.emplace(std::move(*made));
    made.reset();
    now_ = i.to;
    return true;
}

void elastic_core::look_for_requests(std::vector<std::uint64_t>& says) {
    if (clock::now() < requests_.next_look) return;
    requests_.next_look = clock::now() + between_requests;
    for (int n = 0; n < in_.size; ++n) {
        if (std::ranges::find(now_.numbers, n) != now_.numbers.end()) continue;
        const std::optional<std::string> request = in_.get(request_of(n));
        if (!request || request->empty()) continue;
        const std::uint64_t token = std::stoull(*request, nullptr, 16);
        if (requests_.refused.contains(token)) continue;
        if (in_.get(ready_of(token))) says[at(n)] = token;
        else if (requests_.seen.insert(token).second) in_.put(seen_of(token), "");
    }
}

}  // namespace terrace::detail

namespace terrace {

using namespace detail;

elastic::elastic(std::unique_ptr<elastic_core> core) noexcept : core_(std::move(core)) {}
elastic::elastic(elastic&&) noexcept = default;
elastic& elastic::operator=(elastic&&) noexcept = default;
elastic::~elastic() = default;

elastic elastic::begin(const store& in, int founders, const options& o) {
    return elastic(std::make_unique<elastic_core>(in, founders, o));
}
elastic elastic::begin(int founders, const options& o) { return begin(store_of(o), founders, o); }
elastic elastic::join(const store& in, const options& o) { return elastic(std::make_unique<elastic_core>(in, o)); }
elastic elastic::join(const options& o) { return join(store_of(o), o); }

bool elastic::iterate(const std::function<void(communicator&)>& work) { return core_->iterate(work); }
void elastic::on_change(std::function<void(communicator&)> synchronise) { core_->on_change(std::move(synchronise)); }
void elastic::leave() { core_->leave(); }
bool elastic::is_member() const noexcept { return core_->is_member(); }
communicator& elastic::comm() { return core_->comm(); }
const std::vector<int>& elastic::members() const noexcept { return core_->now().numbers; }
std::uint64_t elastic::generation() const noexcept { return core_->now().generation; }
std::uint64_t elastic::iterations() const noexcept { return core_->now().iterations; }

}  // namespace terrace
