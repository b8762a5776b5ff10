#pragma once

#include <functional>
#include <vector>

#include <terrace/options.hpp>

#include "control/call_order/call_check.hpp"
#include "control/link_report/link_reports.hpp"
#include "control/membership/failure_watch.hpp"
#include "control/messages/point_to_point.hpp"
#include "control/plan_change/plan_changes.hpp"
#include "control/wait_report/wait_chain.hpp"

namespace terrace::detail {

/// The services of a communicator, named as in the table, and the router that passes them their messages. The service
/// `membership` is the failure_agreement of the failure_watch.
struct control_plane {
    /// @param net, calls, callers_rank, events, o must outlive this   @param first_slot as in point_to_point
    /// @param progress, watch as in call_check
    control_plane(endpoint& net, const engine& calls, int first_slot, const std::vector<int>& callers_rank,
                  recorder& events, const options& o, std::function<void()> progress, std::function<void()> watch)
        : router(net),
          messages(router, first_slot, callers_rank, events),
          call_order(router, callers_rank, o, std::move(progress), std::move(watch)),
          wait_report(router, o.timeout),
          membership(router, callers_rank, o.failure_timeout),
          link_report(router),
          plan_change(router, calls) {}

    control_router router;
    point_to_point messages;
    call_check call_order;
    wait_chain wait_report;
    failure_watch membership;
    link_reports link_report;
    plan_changes plan_change;
};

}  // namespace terrace::detail
