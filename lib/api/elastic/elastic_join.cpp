// How processes come into an elastic job: what they ask, and what the members answer.

#include <algorithm>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "api/elastic/elastic_core.hpp"
#include "api/parts.hpp"
#include "base/at_end.hpp"
#include "base/index.hpp"
#include "transport/packed.hpp"
#include "transport/store_bootstrap.hpp"

namespace terrace::detail {

namespace {

using clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds between_requests(50);  // that members look for
constexpr milliseconds between_answers(2);    // that who joins looks for

std::string request_of(int number) { return fmt::format("join/{}", number); }
std::string seen_of(std::uint64_t token) { return fmt::format("seen/{:x}", token); }
std::string ready_of(std::uint64_t token) { return fmt::format("ready/{:x}", token); }
std::string invitation_of(std::uint64_t token) { return fmt::format("invite/{:x}", token); }

// The members have given up the generation that this process joins.
struct given_up {};

std::uint64_t new_token() {
    std::uint64_t token = random_number();
    while (token <= leaves) token = random_number();
    return token;
}

template <class Done>
bool comes_true(std::chrono::duration<double> limit, Done done) {
    const auto begin = clock::now();
    while (!done()) {
        if (limit.count() > 0 && clock::now() - begin > limit) return false;
        std::this_thread::sleep_for(between_answers);
    }
    return true;
}

}  // namespace

std::string text_of(const elastic_invitation& i) {
    packed text;
    text.add(i.name);
    text.add(std::to_string(i.to.generation));
    text.add(std::to_string(i.to.iterations));
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

elastic_core::elastic_core(store in, options o) : in_(std::move(in)), options_(std::move(o)) {
    expect_usable();
    const auto begin = clock::now();
    while (!comm_) {
        const std::uint64_t token = new_token();
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

// Returns false where the members go on without this process, which then asks again.
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

void join_requests::look(const std::vector<int>& members, std::vector<std::uint64_t>& says) {
    if (clock::now() < next_look_) return;
    next_look_ = clock::now() + between_requests;
    for (int n = 0; n < in_.size; ++n) {
        if (std::ranges::find(members, n) != members.end()) continue;
        const std::optional<std::string> request = in_.get(request_of(n));
        if (!request || request->empty()) continue;
        const std::uint64_t token = std::stoull(*request, nullptr, 16);
        if (refused_.contains(token)) continue;
        if (in_.get(ready_of(token))) says[at(n)] = token;
        else if (seen_.insert(token).second) in_.put(seen_of(token), "");
    }
}

}  // namespace terrace::detail
