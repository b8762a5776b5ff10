#include "api/creation/transport_setup.hpp"

#include <utility>
#include <vector>

#include "control/messages/point_to_point.hpp"
#include "executor/engine.hpp"
#include "schedule/slice.hpp"
#include "schedule/stage_groups.hpp"
#include "transport/shm/node_network.hpp"
#include "transport/shm/shm_stages.hpp"

namespace terrace::detail {

std::unique_ptr<endpoint> equip(connection by, const plan_data& p, const options& o) {
    if (o.shared_memory && by.memory && by.net->traits().by_node_memory)
        by.net = with_node_messages(std::move(by.net), by.memory);
    auto made =
        std::make_unique<endpoint>(std::move(by), engine::request_slots(most_lanes(p)) + point_to_point::wire_slots);
    connection& on = made->base();
    if (const std::vector<std::vector<int>> groups = mpi_groups(p); !groups.empty())
        made->stages().add(on.net->own_collectives(on.ranks, groups, lane_slots(p)));
    if (o.shared_memory && on.memory)
        made->stages().add(make_shm_stages(on, lane_slots(p), static_cast<std::size_t>(slot_bytes(p))));
    return made;
}

}  // namespace terrace::detail
