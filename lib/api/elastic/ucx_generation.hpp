#pragma once

#include <chrono>
#include <functional>

#include <terrace/communicator.hpp>
#include <terrace/store.hpp>

#include "api/creation/plan_cache.hpp"

namespace terrace::detail {

/// Returns the store that options name: options::bootstrap, `rank` and `size`. @throws usage_error, transport_error
store store_of(const options& o);

/// How a communicator is created that has other ranks than the one before it.
struct generation_setting {
    store in;                                 ///< whose keys no other generation has
    std::chrono::duration<double> timeout{};  ///< longest wait for another rank while it is created [s]
    std::function<void()> look;               ///< called while this rank waits; may throw
};

/// Creates a communicator over UCX of the ranks of a store. The job is planned as it is then. Collective over them.
/// @param kept finds plans, and takes them   @throws as ucx::create, and what `look` throws
communicator create_generation(const generation_setting& s, const options& o, kept_plans& kept);

}  // namespace terrace::detail
