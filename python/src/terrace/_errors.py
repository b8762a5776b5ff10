"""The exceptions of the C++ interface, with its names: docs/reference/errors.md says when each is raised."""
from __future__ import annotations

from typing import NamedTuple


class error(RuntimeError):
    """The base of all errors of Terrace. The text says what happened, where, and what to do."""


class input_error(error):
    """A file, or a value of an option, says something invalid."""

    file: str = ""
    line: int = 0
    column: int = 0


class plan_error(error):
    """A plan does not fit, or differs between ranks."""


class usage_error(error):
    """A call is wrong in itself, or differs between ranks."""


class timeout_error(error):
    """Other ranks did not make the call in time. The communicator is broken."""


class transport_error(error):
    """A library below failed. The communicator is broken."""

    library: str = ""
    call: str = ""
    code: int = 0


class FailedRank(NamedTuple):
    """A rank that has failed: its number in the communicator of the call, its host, and by what it was noticed."""

    rank: int
    host: str
    noticed: str


class rank_failed_error(error):
    """Ranks have died, are stopped or cut off. The communicator is broken; shrink() goes on without them."""

    failed: tuple[FailedRank, ...] = ()


class partitioned_error(error):
    """Raised by shrink(): another part of the job may go on, this one must not."""
