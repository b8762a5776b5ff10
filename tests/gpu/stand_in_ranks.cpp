#include "gpu/stand_in_ranks.hpp"

#include <thread>

#include "api/core.hpp"
#include "api/creation/connect.hpp"
#include "plan/plan_access.hpp"
#include "transport/loopback/loopback_transport.hpp"

namespace terrace::detail::test {

std::vector<std::exception_ptr> run_on_stand_in(gpu_stand_in& on, const plan& p,
                                                const std::function<void(communicator&)>& body, const options& o,
                                                bool tells, bool device_memory) {
    loopback_world world(data_of(p).machine.node_sizes(), device_memory);
    std::vector<std::exception_ptr> thrown(static_cast<std::size_t>(p.ranks()));
    const auto rank_main = [&](int rank) {
        try {
            communicator comm =
                make_communicator(planned_ranks{p, world.join(rank), rank}, o, device_setting{&on.runtime(), rank});
            body(comm);
        } catch (...) {
            thrown[static_cast<std::size_t>(rank)] = std::current_exception();
            if (tells) world.fail("another rank has failed");
        }
    };
    std::vector<std::jthread> ranks;
    for (int rank = 0; rank < p.ranks(); ++rank) ranks.emplace_back(rank_main, rank);
    ranks.clear();  // joins
    return thrown;
}

}  // namespace terrace::detail::test
