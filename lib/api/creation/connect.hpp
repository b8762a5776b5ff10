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

/// The ranks of a plan, in the plan's order, and their connection.
struct planned_ranks {
    plan by;
    connection net;
    int rank = 0;  ///< of this process, in the caller's numbering
};

/// Checks that all ranks have the same plan, options and version, and puts the ranks in the plan's order. Collective.
/// @param p null: the plan in `o.plan_file`, or one made for the job
/// @param also further properties that all ranks must share, in words, after a comma
/// @param kept plans made earlier, to which the plan is added; null: plans are not kept   @throws as mpi::create
planned_ranks connect(connection all, const plan* p, const options& o, std::string_view also = {},
                      kept_plans* kept = nullptr);

/// Returns an object that watches the processes of these ranks; null if options disable this, or for a single rank.
/// Collective. @throws transport_error
std::shared_ptr<liveness> watch_ranks(connection& all, const options& o);

/// Returns the source of memory for ranks that are processes. Logs the reason if they cannot share memory.
std::shared_ptr<region_source> memory_of_processes(const options& o);

/// Runs an action that may fail on this rank only, before connect(). If it fails, connect() fails on the other ranks.
/// @param what the missing part, named in the error of the other ranks
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
