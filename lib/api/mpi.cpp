#include <terrace/mpi.hpp>

#include <string_view>

#include <fmt/format.h>

#include <terrace/version.hpp>

#include "api/auto_plan.hpp"
#include "api/core.hpp"
#include "api/environment.hpp"
#include "api/mpi_world.hpp"
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
        throw usage_error(
            fmt::format("options::progress_thread needs MPI_THREAD_MULTIPLE, but MPI was started with {}; "
                        "ask MPI_Init_thread for it, or do without the thread",
                        level_name(given)));
}

// All ranks, as MPI numbers them, if they have the same in common.
std::unique_ptr<transport> join(MPI_Comm world, const std::string& plan_id, const options& o, std::string_view also) {
    or_tell_others(world, "no progress thread", [&] { expect_thread_level(o); });
    const bool by_node = o.place == options::placement::by_node;
    return make_mpi_transport(
        world, identity_of(fmt::format("terrace {}, plan {}, placed {}, check {}{}{}{}", version(), plan_id,
                                       by_node ? "by node" : "anywhere", to_string(o.check),
                                       o.shared_memory ? "" : ", no shared memory",
                                       o.progress_thread ? ", progress thread" : "", also)));
}

planned connect_without_plan(MPI_Comm world, const options& o, std::string_view also) {
    std::unique_ptr<transport> net = join(world, "of its own", o, also);
    const job found = describe_job(*net);
    net = in_order(std::move(net), found.place);
    plan made = plan_job(found, *net);
    return {std::move(made), std::move(net)};
}

}  // namespace

void tell_others(MPI_Comm world, const std::string& why) noexcept {
    try {
        make_mpi_transport(world, identity_of(why));
    } catch (const std::exception&) {}
}

planned connect(MPI_Comm world, const plan& p, const options& o, std::string_view also) {
    std::unique_ptr<transport> net = join(world, p.id(), o, also);
    try {
        return {p, in_places(std::move(net), p.get().machine, o.place)};
    } catch (const plan_error& e) {
        if (p.get().file.empty()) throw;
        throw plan_error(fmt::format("{}: {}", p.get().file, e.what()));
    }
}

planned connect(MPI_Comm world, const options& o, std::string_view also) {
    if (o.plan_file.empty()) return connect_without_plan(world, o, also);
    return connect(world, or_tell_others(world, "no plan", [&] { return load_plan(o); }), o, also);
}

namespace {

communicator communicator_of(planned with, MPI_Comm world, const options& o) {
    return communicator(std::make_unique<communicator::core>(with.by, std::move(with.net), mpi_rank(world), o));
}

}  // namespace

communicator create(MPI_Comm world, const plan& p, const options& o) {
    return communicator_of(connect(world, p, o), world, o);
}
communicator create(MPI_Comm world, const options& o) { return communicator_of(connect(world, o), world, o); }

}  // namespace terrace::mpi
