"""Communicators over MPI, through mpi4py."""
from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

from terrace._library import ON_ALL, PROCESSES, CMpiWorld, lib, made_by
from terrace.communicator import DEVICE_BY_RANK as DEVICE_BY_RANK
from terrace.communicator import NO_DEVICE as NO_DEVICE
from terrace.communicator import Communicator
from terrace.settings import AnyPlan, Options, plan_of

if TYPE_CHECKING:
    Comm = Any  # mpi4py.MPI.Comm


def create(comm: Comm, *, plan: AnyPlan | None = None, options: Options | None = None,
           device: int = NO_DEVICE) -> Communicator:
    """Makes a communicator of all ranks of an mpi4py communicator, which is duplicated. Collective. Without a plan and
    TERRACE_PLAN, a plan is made for the job. With a device, buffers may be in its memory."""
    from mpi4py import MPI  # type: ignore[import-not-found, unused-ignore]

    version: str = MPI.Get_library_version()
    has_pointers = MPI._sizeof(MPI.Comm) == ctypes.sizeof(ctypes.c_void_p)  # Open MPI, and the standard ABI
    abi = MPI.Get_abi_version()[0] if hasattr(MPI, "Get_abi_version") else 0

    def processes() -> int:
        return int(MPI.COMM_WORLD.Get_size()) if MPI.Is_initialized() and not MPI.Is_finalized() else 0

    def on_all(_: object, mine: int) -> int:
        return int(comm.allreduce(mine, op=MPI.MIN))

    functions = (PROCESSES(processes), ON_ALL(on_all))
    world = CMpiWorld(b"mpiabi" if abi > 0 else b"openmpi" if has_pointers else b"mpich",
                      MPI._addressof(comm), version.encode(), *functions,
                      ctypes.cast(ctypes.CDLL(MPI.__file__).MPI_Comm_rank, ctypes.c_void_p))
    with_options = options or Options(from_environment=True)
    planned = plan_of(plan) if plan is not None else None
    address = made_by(lib.mpi_create_in, ctypes.byref(world), device, with_options._address,
                      planned._address if planned else None)
    return Communicator(address, (with_options, functions), has_device=device != NO_DEVICE)
