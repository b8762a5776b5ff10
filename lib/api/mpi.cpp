#include <terrace/mpi.hpp>

#include <string_view>

#include <fmt/format.h>

#include <terrace/version.hpp>

#include "api/auto_plan.hpp"
#include "api/core.hpp"
#include "api/environment.hpp"
#include "api/placement.hpp"
#include "transport/mpi/mpi_transport.hpp"

namespace terrace::mpi {

namespace {

std::string_view level_name(int level) {
    switch (level) {
        case MPI_THREAD_SINGLE: return "MPI_THREAD_SINGLE";
        case MPI_THREAD_FUNNELED: return "MPI_THREAD_FUNNELED";
        case MPI_THREAD_SERIALIZED: return "MPI_THREAD_SERIALIZED";
        default: return "MPI_THREAD_MULTIPLE";
    }
}

void expect_thread_level(const options& o) {
    int given = MPI_THREAD_MULTIPLE;
    MPI_Query_thread(&given);
    if (o.progress_thread && given < MPI_THREAD_MULTIPLE)
        throw usage_error(fmt::format("options::progress_thread needs MPI_THREAD_MULTIPLE, but MPI was started with {}; "
                                      "ask MPI_Init_thread for it, or do without the thread",
                                      level_name(given)));
}

// What this rank alone would do: the others must learn of it rather than wait, since nobody agrees with it.
template <class Action>
auto or_tell_others(MPI_Comm world, const char* what, Action action) {
    try {
        return action();
    } catch (const error& e) {
        try {
            make_mpi_transport(world, identity_of(fmt::format("{} ({})", what, e.what())));
        } catch (const plan_error&) {
        }
        throw;
    }
}

// All ranks, as MPI numbers them, if they have the same in common.
std::unique_ptr<transport> join(MPI_Comm world, const std::string& plan_id, const options& o) {
    or_tell_others(world, "no progress thread", [&] { expect_thread_level(o); });
    const bool by_node = o.place == options::placement::by_node;
    return make_mpi_transport(world, identity_of(fmt::format("terrace {}, plan {}, placed {}, check {}{}", version(),
                                                             plan_id, by_node ? "by node" : "anywhere",
                                                             to_string(o.check),
                                                             o.shared_memory ? "" : ", no shared memory")));
}

communicator create_without_plan(MPI_Comm world, const options& o) {
    std::unique_ptr<transport> net = join(world, "of its own", o);
    const job found = describe_job(*net);
    net = in_order(std::move(net), found.place);
    const plan made = plan_job(found, *net);
    return communicator(std::make_unique<communicator::core>(made, std::move(net), mpi_rank(world), o));
}

}  // namespace

communicator create(MPI_Comm world, const plan& p, const options& o) {
    return communicator(std::make_unique<communicator::core>(
        p, in_places(join(world, p.id(), o), p.get().machine, o.place), mpi_rank(world), o));
}

communicator create(MPI_Comm world, const options& o) {
    if (o.plan_file.empty()) return create_without_plan(world, o);
    return create(world, or_tell_others(world, "no plan", [&] { return load_plan(o); }), o);
}

}  // namespace terrace::mpi
