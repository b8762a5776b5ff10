"""Options and plans."""
from __future__ import annotations

import ctypes
import os
from typing import Callable, Union

from terrace._library import LOG, Handle, lib, made_by

_LEVELS = ("warn", "info", "debug")


class Options(Handle):
    """The settings of communicators. Names are those of the TERRACE_* variables, in lower case without the prefix.

    >>> Options(timeout=30, check="every")
    Options(timeout='30', check='every')
    >>> Options(timeout="soon")
    Traceback (most recent call last):
    terrace._errors.input_error: options: timeout is "soon"; allowed: a number of seconds; 0: no limit
    """

    _kind = "options"

    def __init__(self, *, from_environment: bool = False, log: Callable[[str, str], None] | None = None,
                 **values: object) -> None:
        """Begins with the defaults, or with the environment's values; log(level, line) receives log lines."""
        super().__init__(made_by(lib.options_from_environment if from_environment else lib.options_create))
        self._values: dict[str, str] = {}
        for name, value in values.items():
            self.set(name, value)
        if log is not None:
            self._log = _log_function(log)
            lib.options_set_log(self._address, self._log, None)

    def set(self, name: str, value: object) -> None:
        """Sets one option. Existing communicators keep their values."""
        text = {True: "on", False: "off"}[value] if isinstance(value, bool) else str(value)
        lib.options_set(self._address, name.encode(), text.encode())
        self._values[name] = text

    def __repr__(self) -> str:
        return f"Options({', '.join(f'{name}={text!r}' for name, text in self._values.items())})"


def _log_function(log: Callable[[str, str], None]) -> object:
    def write(user: object, level: int, line: int, length: int) -> None:
        log(_LEVELS[level], ctypes.string_at(line, length).decode(errors="replace"))

    return LOG(write)


class Plan(Handle):
    """A plan made by `terrace plan` or terrace.plan(). Immutable."""

    _kind = "plan"

    def __init__(self, file: str | os.PathLike[str]) -> None:
        """Reads a plan file."""
        super().__init__(made_by(lib.plan_load, os.fsencode(file)))
        #: The text of the file.
        with open(file, encoding="utf-8") as text:
            self.text = text.read()
        address = self._address
        #: The name of the machine.
        self.name: str = lib.plan_name(address).decode()
        #: The number of ranks that a communicator must have.
        self.ranks: int = lib.plan_ranks(address)
        #: A hash of the plan: equal for equal plans.
        self.id: str = lib.plan_id(address).decode()

    def __repr__(self) -> str:
        return f"<terrace.Plan {self.name}: {self.ranks} ranks>"


#: A plan, or the name of its file.
AnyPlan = Union[Plan, str, "os.PathLike[str]"]


def plan_of(plan: AnyPlan) -> Plan:
    return plan if isinstance(plan, Plan) else Plan(plan)
