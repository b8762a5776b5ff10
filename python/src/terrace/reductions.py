"""Element types and operations by name."""
from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any, Callable, Union

from terrace._errors import usage_error
from terrace._library import CReduction, lib


def _names(of: Callable[[int], bytes | None]) -> dict[str, int]:
    found = itertools.takewhile(lambda name: name is not None, map(of, itertools.count()))
    return {name.decode(): number for number, name in enumerate(found) if name is not None}


#: Element types by name, with the numbers of terrace.h.
ELEMENT_TYPES: dict[str, int] = _names(lib.element_type_name)
#: Operations by name, with the numbers of terrace.h.
REDUCE_OPS: dict[str, int] = _names(lib.reduce_op_name)


def number_of(names: dict[str, int], name: str, what: str) -> int:
    number = names.get(name)
    if number is None:
        raise usage_error(f'there is no {what} "{name}"; there are {", ".join(names)}')
    return number


@dataclass(frozen=True)
class Reduction:
    """An operation, with this rank's factor for premul_sum. `exact`: nothing is rounded on the wire."""

    op: str
    factor: float = 1.0
    exact: bool = False


#: The name of an operation, or a Reduction; accepted by calls.
AnyReduction = Union[str, Reduction]


def reduction(by: AnyReduction) -> Reduction:
    return by if isinstance(by, Reduction) else Reduction(by)


def premul_sum(factor: float) -> Reduction:
    """Returns a sum before which this rank multiplies its elements by its own factor."""
    return Reduction("premul_sum", factor)


def exact(by: AnyReduction) -> Reduction:
    """Returns the reduction for a call that rounds nothing on the wire."""
    by = reduction(by)
    return Reduction(by.op, by.factor, True)


def is_defined(op: str, element_type: str) -> bool:
    """Returns True if the operation is defined for elements of the type.

    >>> is_defined("band", "float32"), is_defined("band", "int32")
    (False, True)
    """
    return bool(lib.is_defined(number_of(REDUCE_OPS, op, "operation"),
                               number_of(ELEMENT_TYPES, element_type, "element type")))


def to_c(by: AnyReduction) -> Any:
    by = reduction(by)
    return CReduction(number_of(REDUCE_OPS, by.op, "operation"), by.factor, int(by.exact))
