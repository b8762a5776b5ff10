// Collectives that a provider runs by itself. Each generator hands the whole stage over.

#include <array>

#include "base/keep_for_ever.hpp"
#include "schedule/registry.hpp"

namespace terrace::detail {

namespace {

template <provider By, action Stage>
void hand_over(builder& out, const group& g) {
    out.next_step();
    out.hand_over(By, Stage, g);
}

template <provider By>
algorithm collective_of(std::string_view summary) {
    return {
        .name = to_string(By),
        .summary = summary,
        .reduce_scatter = hand_over<By, action::stage_reduce_scatter>,
        .allgather = hand_over<By, action::stage_allgather>,
        .reduce = hand_over<By, action::stage_reduce>,
        .broadcast = hand_over<By, action::stage_broadcast>,
        .allreduce = hand_over<By, action::stage_allreduce>,
        .scatter = hand_over<By, action::stage_scatter>,
        .gather = hand_over<By, action::stage_gather>,
        .provider = By,
    };
}

// Leaves allreduce out: MPI decides there which rank reduces which element, so that ranks might get different bits.
algorithm mpi_collective() {
    algorithm made = collective_of<provider::mpi>("MPI's own nonblocking collective; direct without MPI");
    made.allreduce = nullptr;
    return made;
}

}  // namespace

std::span<const algorithm> provider_collectives() noexcept {
    static const auto& rows = kept_for_ever(std::array{
        collective_of<provider::shared_memory>(
            "memory that the ranks of a node share; direct or doubling where they share none"),
        collective_of<provider::nccl>("NCCL's own collective of device buffers; host buffers use shared_memory"),
        mpi_collective(),
    });
    return rows;
}

}  // namespace terrace::detail
