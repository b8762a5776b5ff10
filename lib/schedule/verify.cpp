#include "schedule/verify.hpp"

#include "schedule/verify/expressions.hpp"
#include "schedule/verify/proof.hpp"
#include "schedule/verify/stages.hpp"

// The proof uses only the instruction set of the builder, and derives again all that the builder inferred.

namespace terrace::detail {

std::optional<std::string> find_fault(std::span<const schedule> schedules, const expectation& of) {
    try {
        const proof::contract terms(schedules, of);
        proof::check_form(schedules, terms);
        const proof::network net(schedules);
        proof::stages with(net);
        std::vector<proof::event> order;
        proof::expressions sums(static_cast<int>(schedules.size()), of.tree);
        bool first = true;
        for (const proof::buffer_case& now : with.cases()) {
            with.settle(now);
            if (first || !with.none()) order = proof::completion_order(net, with);
            if (first) proof::check_races(net, terms, with);
            proof::check_result(net, terms, with, now, order, sums);
            first = false;
        }
        return {};
    } catch (const proof::fault& f) {
        return f.text;
    }
}

}  // namespace terrace::detail
