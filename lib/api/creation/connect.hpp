#pragma once

#include <memory>
#include <string>
#include <string_view>

#include <terrace/options.hpp>
#include <terrace/plan.hpp>

#include "api/creation/plan_cache.hpp"
#include "calls/failure_state.hpp"
#include "transport/network.hpp"

namespace terrace::detail {

/// The ranks of a plan, in its order, and what connects them.
struct planned_ranks {
    plan by;
    connection net;
    int rank = 0;  ///< of this process, in the caller's numbering
};

/// Makes sure that all ranks have the same plan, options and version, and puts them in the plan's order. Collective.
/// @param p null: the plan in `o.plan_file`, or one made for the job
/// @param also what all ranks must have in common besides, in words, with a comma before it
/// @param kept finds the plan of a job, and takes it; null: none are kept   @throws as mpi::create
planned_ranks connect(connection all, const plan* p, const options& o, std::string_view also = {},
                      kept_plans* kept = nullptr);

/// Returns who looks at the processes of these ranks; null where options say that nobody does. Collective.
/// @throws transport_error
std::shared_ptr<liveness> watch_ranks(connection& all, const options& o);

/// Returns memory for ranks that are processes. Where they cannot share it, the log of `o` says why.
std::shared_ptr<region_source> memory_of_processes(const options& o);

/// Does something that may fail on this rank alone, before connect(), which then fails on the other ranks.
/// @param what is missing if it fails
template <class Action>
decltype(auto) or_tell_others(team& all, std::string_view what, Action action) {
    try {
        return action();
    } catch (const std::exception& e) {
        error_in([&] { require_same(all, std::string(what) + " (" + e.what() + ")"); });
        throw;
    }
}

}  // namespace terrace::detail
