"""Terrace: collectives by a plan, for clusters whose network is not flat.

A communicator is made from the environment (UCX, without MPI), a store, mpi4py, or threads of this process:

>>> import array, terrace
>>> plan = terrace.plan("package:2 core:2")
>>> def body(comm):
...     data = array.array("f", [comm.rank, 1])
...     comm.allreduce(data)
...     return list(data)
>>> terrace.loopback.run(plan, body)
[[6.0, 4.0], [6.0, 4.0], [6.0, 4.0], [6.0, 4.0]]
"""
from terrace import loopback, mpi
from terrace._errors import (FailedRank, error, input_error, partitioned_error, plan_error, rank_failed_error,
                             timeout_error, transport_error, usage_error)
from terrace._library import version
from terrace._planning import explain, plan, simulate
from terrace._requests import Received, Request
from terrace._stores import Store
from terrace._windows import Window
from terrace.communicator import Communicator, create
from terrace.gradients import GradientReducer, Parameter
from terrace.reductions import ELEMENT_TYPES, REDUCE_OPS, Reduction, exact, is_defined, premul_sum
from terrace.settings import Options, Plan

__version__ = version()

__all__ = [
    "ELEMENT_TYPES", "REDUCE_OPS", "Communicator", "FailedRank", "GradientReducer", "Options", "Parameter", "Plan",
    "Received", "Reduction", "Request", "Store", "Window", "create", "error", "exact", "explain", "input_error",
    "is_defined", "loopback", "mpi", "partitioned_error", "plan", "plan_error", "premul_sum", "rank_failed_error",
    "simulate", "timeout_error", "transport_error", "usage_error", "version",
]
