#pragma once

#include <functional>
#include <string>
#include <vector>

#include <terrace/communicator.hpp>

namespace terrace::detail::test {

/// Returns a plan with rules for all collectives, for this number of ranks.
plan plan_for(int ranks);

/// Calls that ranks have made together before they make different calls: none, the right call, or both.
enum class agreed_before { nothing, what_most_call, all };

/// Two calls that must not match, and the text about each in the error.
struct bad_call {
    std::string kind;
    std::function<void(communicator&, std::vector<float>&data)> right, wrong;
    std::string right_text, wrong_text;
};

/// Returns one bad call for each difference: count, type, op, collective, root, counts by rank, and order.
std::vector<bad_call> bad_calls(int ranks);

/// Makes the right call on all ranks but the culprit, which makes the wrong one. Then every rank makes an allreduce, in
/// which a rank that did not wait before gets the error. Returns what is wrong with this rank's error; "" if nothing.
/// Collective.
/// @param level the communicator's level of checking
std::string trouble_with(communicator& comm, const bad_call& what, int culprit, agreed_before before,
                         options::checking level);

}  // namespace terrace::detail::test
