#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "transport/nccl/module.hpp"

// Parts of gpu_module.cpp: streams of the "device", and NCCL's functions by MPI.
namespace terrace::detail::test::gpu_module {

using work = std::function<void()>;

/// Does the work at once, or keeps it for the graph that the stream captures.
int put(gpu_stream s, work w);

int split(nccl_comm comm, int color, int key, nccl_comm* part);
int make_id(nccl_id* id);
int make_comm(nccl_comm* comm, int ranks, const nccl_id* id, int rank, bool blocking);
int drop_comm(nccl_comm c);
int group_start();
int group_end();
int send(const void* from, std::size_t bytes, int peer, nccl_comm c, gpu_stream s);
int recv(void* to, std::size_t bytes, int peer, nccl_comm c, gpu_stream s);
int all_gather(const void* from, void* to, std::size_t bytes, nccl_comm c, gpu_stream s);
int broadcast(const void* from, void* to, std::size_t bytes, int root, nccl_comm c, gpu_stream s);
/// Makes an error in the result if TERRACE_TEST_WRONG is set.
int all_reduce(const void* from, void* to, std::size_t count, element_type type, reduce_op op, nccl_comm c,
               gpu_stream s);
int reduce_scatter(const void* from, void* to, std::size_t count, element_type type, reduce_op op, nccl_comm c,
                   gpu_stream s);
int reduce(const void* from, void* to, std::size_t count, element_type type, reduce_op op, int root, nccl_comm c,
           gpu_stream s);

}  // namespace terrace::detail::test::gpu_module
