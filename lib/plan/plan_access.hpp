#pragma once

#include <memory>
#include <utility>

#include <terrace/plan.hpp>

#include "plan/plan_data.hpp"

namespace terrace::detail {

/// Gives Terrace's own code access to the data of plans.
struct plan_access {
    static plan make(plan_data data) { return plan(std::make_shared<const plan_data>(std::move(data))); }
    static const plan_data& data(const plan& p) noexcept { return *p.data_; }
};

/// Returns the data of a plan, valid as long as any copy of the plan.
inline const plan_data& data_of(const plan& p) noexcept { return plan_access::data(p); }

/// Makes a plan from its data.
inline plan to_plan(plan_data data) { return plan_access::make(std::move(data)); }

}  // namespace terrace::detail
