"""The exceptions of the C++ interface, with the same names. docs/reference/errors.md describes when they are raised."""
from __future__ import annotations

from typing import NamedTuple


class error(RuntimeError):
    """The base of all errors of Terrace. The text describes the error, its place, and the fix."""


class input_error(error):
    """A file or an option has an invalid value."""

    file: str = ""
    line: int = 0
    column: int = 0


class plan_error(error):
    """A plan does not fit, or differs between ranks."""


class usage_error(error):
    """A call is invalid, or differs between ranks."""


class timeout_error(error):
    """Other ranks did not make the call in time. The communicator is broken."""


class transport_error(error):
    """A library below failed. The communicator is broken."""

    library: str = ""
    call: str = ""
    code: int = 0


class FailedRank(NamedTuple):
    """A rank that has failed: its number in the communicator of the call, its host, and the evidence of the failure."""

    rank: int
    host: str
    noticed: str


class rank_failed_error(error):
    """Ranks have died, are stopped or unreachable. The communicator is broken; shrink() continues without them."""

    failed: tuple[FailedRank, ...] = ()


class partitioned_error(error):
    """Raised by shrink(): another part of the job may continue, but this part must not."""
