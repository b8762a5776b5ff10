#include "schedule/verify.hpp"

#include "schedule/verify/proof.hpp"

// Nothing is taken from the builder but the instruction set: what it inferred is derived again.

namespace terrace::detail {

std::optional<std::string> find_fault(std::span<const schedule> schedules, const expectation& of) {
    try {
        const proof::contract terms(schedules, of);
        proof::check_form(schedules, terms);
        const proof::network net(schedules);
        const std::vector<std::size_t> order = proof::completion_order(net);
        proof::check_races(net, terms);
        proof::check_result(net, terms, order);
        return {};
    } catch (const proof::fault& f) {
        return f.text;
    }
}

}  // namespace terrace::detail
