#pragma once

#include <terrace/export.hpp>

#include <terrace/device.hpp>
#include <terrace/mpi.hpp>

/// Collectives of device buffers by a plan, through NCCL. The module terrace-nccl.so is loaded when a communicator is
/// created. A program that includes this header therefore starts, and can use host buffers, on machines without CUDA,
/// NCCL or a GPU.
namespace terrace::nccl {

/// Creates a communicator as mpi::create does, for host buffers and for buffers on the given device of this rank.
/// Collective.
///
/// Members of `communicator` accept device buffers like any others: the call begins at once and is complete when the
/// result is in the buffer. The functions of <terrace/device.hpp> order a call behind the work of a CUDA stream, and
/// later work of the stream behind the call, without blocking the caller. After any call of the communicator, its
/// device is the current device of the thread.
/// @throws transport_error on all ranks if a rank has no usable device or NCCL, with the reason and the remedy, within
/// a second; timeout_error; and as mpi::create
inline communicator create(MPI_Comm world, const plan& p, int device = device_by_rank, const options& o = {}) {
    return detail::create_over_mpi(detail::world_of(world), &p, device, o);
}

/// Creates the same with the plan in `o.plan_file`; if that is empty, with one made for the job. @throws as mpi::create
inline communicator create(MPI_Comm world, int device = device_by_rank, const options& o = {}) {
    return detail::create_over_mpi(detail::world_of(world), nullptr, device, o);
}

}  // namespace terrace::nccl
