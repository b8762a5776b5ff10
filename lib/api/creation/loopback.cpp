#include <terrace/loopback.hpp>

#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "api/core.hpp"
#include "api/creation/connect.hpp"
#include "api/environment.hpp"
#include "plan/plan_access.hpp"
#include "transport/loopback/loopback_transport.hpp"

namespace terrace::loopback {

using namespace detail;

void run(const plan& p, const std::function<void(communicator&)>& body, const options& o) {
    loopback_world world(data_of(p).machine.node_sizes());
    std::mutex guard;
    std::exception_ptr first;
    const auto rank_main = [&](int rank) {
        try {
            communicator comm = make_communicator(planned_ranks{p, world.join(rank), rank}, o);
            body(comm);
        } catch (...) {
            {
                const std::lock_guard lock(guard);
                if (!first) first = std::current_exception();
            }
            world.fail("another rank has failed");
        }
    };
    std::vector<std::jthread> ranks;
    for (int rank = 0; rank < p.ranks(); ++rank) ranks.emplace_back(rank_main, rank);
    ranks.clear();  // joins the threads
    if (first) std::rethrow_exception(first);
}

void run(const std::function<void(communicator&)>& body, const options& o) { run(load_plan(o), body, o); }

}  // namespace terrace::loopback
