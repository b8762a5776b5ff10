#pragma once

#include <functional>
#include <utility>
#include <vector>

#include <terrace/options.hpp>

#include "control/call_order/call_check.hpp"
#include "control/link_report/link_reports.hpp"
#include "control/membership/failure_watch.hpp"
#include "control/messages/point_to_point.hpp"
#include "control/plan_change/plan_changes.hpp"
#include "control/wait_report/wait_chain.hpp"

namespace terrace::detail {

/// The services of a communicator, one for each row of the table, and the router that hands them their messages.
struct control_plane {
    /// @param net, callers_rank, events, o must outlive this   @param first_slot of point_to_point
    /// @param progress, watch those of call_check   @param node_of by rank
    control_plane(endpoint& net, int first_slot, const std::vector<int>& callers_rank, recorder& events,
                  const options& o, const std::vector<int>& node_of, std::function<void()> progress,
                  std::function<void()> watch)
        : router(net),
          messages(router, first_slot, callers_rank, events),
          order(router, callers_rank, o, std::move(progress), std::move(watch)),
          chain(router, o.timeout),
          failures(router, callers_rank, o.failure_timeout),
          links(router, node_of),
          plans(router) {
        events.note_messages(links.times());
    }

    control_router router;
    point_to_point messages;
    call_check order;
    wait_chain chain;
    failure_watch failures;
    link_reports links;
    plan_changes plans;
};

}  // namespace terrace::detail
