#pragma once

#include <cstddef>
#include <deque>
#include <span>
#include <string>
#include <vector>

#include <mpi.h>

#include "executor/transport.hpp"
#include "transport/mpi/owned.hpp"

namespace terrace {

/// Stages that are MPI's own nonblocking collectives. Each group has a communicator for each lane slot: what runs on
/// one communicator must be started in one order by all, and lanes wait for nobody. Elements are of datatypes of our
/// own, which name the kernel that one operation of our own then runs.
class library_stages {
public:
    /// Collective over all ranks of `world`, each with the same groups in the same order. @throws transport_error
    library_stages(const owned_comm& world, std::span<const std::vector<int>> groups, int slots);
    ~library_stages();

    struct started {
        MPI_Request request;
        const char* call;  ///< what was called
        int code;          ///< what it returned
    };
    /// Starts the stage of a lane slot.
    started start(const stage_call& call) noexcept;
    /// After it has completed.
    void finish(int lane_slot) noexcept;
    /// What it waits for: all other members.
    std::vector<int> peers(int lane_slot) const;
    /// Leaves communicators as they are.
    void abandon() noexcept;

private:
    struct group_comms {
        std::vector<int> members;
        std::deque<owned_comm> comms;  // by lane slot
    };
    struct element {
        std::size_t bytes;
        reduce_kernel reduce;
        MPI_Datatype type;
    };
    // What runs in a lane slot.
    struct lane {
        stage_call call;
        std::vector<int> counts, begins;
        std::vector<std::byte> shard;  // a reduced one, until it may be written to its place
    };

    MPI_Datatype type_of(const stage_call& call);
    MPI_Comm comm_of(const stage_call& call) noexcept;
    static void combine(void* in, void* inout, int* count, MPI_Datatype* type);

    int rank_;
    std::deque<group_comms> groups_;
    std::deque<element> elements_;
    std::vector<lane> lanes_;
    MPI_Op op_ = MPI_OP_NULL;
    bool abandoned_ = false;
};

}  // namespace terrace
