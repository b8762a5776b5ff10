#pragma once

#include <functional>
#include <string>
#include <vector>

#include <terrace/communicator.hpp>

namespace terrace::detail::test {

/// A plan with rules for all collectives, for so many ranks.
plan plan_for(int ranks);

/// What has been agreed on before ranks make different calls.
enum class agreed_before { nothing, what_most_call, all };

/// Two calls that must not meet, and what an error says of each.
struct bad_call {
    std::string kind;
    std::function<void(communicator&, std::vector<float>&data)> right, wrong;
    std::string right_text, wrong_text;
};

/// A kind each of count, type, op, collective, root, counts by rank and order.
std::vector<bad_call> bad_calls(int ranks);

/// All ranks but the culprit make the right call; the culprit makes the wrong one. Collective; every rank makes an
/// allreduce afterwards, where one that had nothing to wait for learns of it. Returns what is wrong with the error that
/// this rank gets, if anything.
/// @param level of the communicator
std::string trouble_with(communicator& comm, const bad_call& what, int culprit, agreed_before before,
                         options::checking level);

}  // namespace terrace::detail::test
