#pragma once

#include <cstddef>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "plan/plan_data.hpp"
#include "schedule/group_proof.hpp"

namespace terrace::detail {

/// The proofs that `terrace plan` makes: of what `terrace verify` proves the programs that fit a budget, and of small
/// machines the others by groups. Budgets are counted and not timed, so that one cluster has one plan file everywhere.
class plan_proofs {
public:
    /// @param machine outlives it
    explicit plan_proofs(const hierarchy& machine) : machine_(machine) {}

    /// Proves what it can of a collective's rules. Several threads may call it at a time.
    void prove(collective what, const std::vector<rule>& rules);
    /// The same of the plan's collectives whose rules have not been proved.
    void prove_rest(const plan_data& plan);

    /// The first fault found, by collectives in their order; nothing: there is none.
    std::optional<std::string> fault() const;
    /// What has been proved, for the plan.
    std::string text() const;

private:
    struct proved {
        std::vector<rule> rules;
        std::size_t claims = 0, whole = 0, by_groups = 0;  // of all claims, those that are proved
        std::optional<std::string> fault;
    };

    proved proofs_of(collective what, const std::vector<rule>& rules);

    const hierarchy& machine_;
    group_proof groups_;
    mutable std::mutex mutex_;
    std::map<collective, proved> done_;
};

}  // namespace terrace::detail
