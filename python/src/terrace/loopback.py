"""Ranks as threads of this process, for tests and for trying plans."""
from __future__ import annotations

from typing import Callable, TypeVar

from terrace._library import BODY, lib
from terrace.communicator import Communicator
from terrace.settings import AnyPlan, Options, plan_of

T = TypeVar("T")


def run(plan: AnyPlan, body: Callable[[Communicator], T], options: Options | None = None) -> list[T]:
    """Calls `body` once per rank of the plan, each in a separate thread. Returns the results by rank.

    Raises the error of the first rank that fails. Collectives of the other ranks then fail as well.
    """
    plan = plan_of(plan)
    results: dict[int, T] = {}
    raised: list[BaseException] = []

    def run_rank(user: object, address: int) -> int:
        comm = Communicator(address, borrowed=True)
        try:
            results[comm.rank] = body(comm)
            return 0
        except BaseException as e:
            raised.append(e)
            return 1
        finally:
            comm.close()

    try:
        lib.loopback_run(plan._address, options._address if options else None, BODY(run_rank), None)
    except Exception:
        if raised:
            raise raised[0] from None
        raise
    return [results[rank] for rank in range(plan.ranks)]
