#pragma once

#include <cstddef>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include <mpi.h>

#include "transport/mpi/owned.hpp"
#include "transport/stage_runner.hpp"

namespace terrace::detail {

/// Runs stages as MPI's own nonblocking collectives. Each group has a communicator for each lane slot. All ranks must
/// start the collectives of one communicator in the same order, but lanes wait for no other lane. Elements have
/// Terrace's own datatypes, each with its kernel as an attribute, which Terrace's own MPI operation runs.
class mpi_collectives final : public stage_runner {
public:
    /// Collective over the ranks. @param groups the same on all ranks, in the same order: lists of ranks
    /// @param lane_slots lanes that may run at once in one group @throws transport_error
    mpi_collectives(const numbered_comm& all, int rank, std::span<const std::vector<int>> groups, int lane_slots);
    ~mpi_collectives() override;

    void start(int slot, const stage_call& call) noexcept override;
    void poll(std::vector<int>& done) noexcept override;
    std::vector<int> missing(int slot) const override;
    /// Keeps all resources of collectives in flight for good, since MPI cannot cancel these.
    bool abandon() noexcept override;

private:
    struct group_comms {
        std::vector<int> members;      // ranks of the team
        std::deque<owned_comm> comms;  // by lane slot
    };
    struct element {
        std::size_t bytes;
        reduce_kernel reduce;
        MPI_Datatype type;
    };
    // The stage of a lane slot.
    struct lane {
        int slot = -1;
        stage_call call;
        std::vector<int> counts, begins;
        std::vector<std::byte> shard;  // result of a reduce-scatter, until it may be written to its place
    };
    // All objects that MPI uses while a collective is in flight.
    struct resources {
        std::deque<group_comms> groups;
        std::deque<element> elements;
        std::vector<lane> lanes;
        MPI_Op op = MPI_OP_NULL;
    };
    struct started {
        MPI_Request request = MPI_REQUEST_NULL;
        const char* call = "";   // MPI function
        int code = MPI_SUCCESS;  // its result
    };

    started begin(const stage_call& call);
    void finish(const lane& l) noexcept;
    MPI_Datatype type_of(const stage_call& call);
    static void combine(void* in, void* inout, int* count, MPI_Datatype* type);
    void latch(const char* call, int code) noexcept {
        if (!fault_) fault_ = transport_fault{"mpi", call, code, error_text(code)};
    }

    int rank_;
    std::unique_ptr<resources> used_ = std::make_unique<resources>();
    std::vector<MPI_Request> requests_;  // active ones, without gaps
    std::vector<int> lane_of_;           // lane slot of each request
    std::vector<int> indices_;           // indices of completed requests
    bool abandoned_ = false;
};

}  // namespace terrace::detail
