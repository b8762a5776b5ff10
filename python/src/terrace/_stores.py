"""Stores, with which ranks without MPI find one another."""
from __future__ import annotations

import ctypes
from ctypes import c_char_p, c_void_p
from datetime import timedelta
from typing import Any, Callable, Protocol

from terrace._library import GET, PUT, REMOVE, CStore


class Store(Protocol):
    """Values by key that all ranks of a job can reach, with which ranks without MPI find one another."""

    def put(self, key: str, value: bytes) -> None:
        """Publishes a value; replaces the value of the same key."""

    def get(self, key: str) -> bytes | None:
        """Returns the value of a key; None if there is none yet. Does not wait."""

    def remove(self, key: str) -> None:
        """Removes a value."""


class C10dStore:
    """A terrace.Store in a store of c10d: torch.distributed.TCPStore, FileStore, PrefixStore ..."""

    def __init__(self, store: Any) -> None:
        self._store = store

    def under(self, name: str) -> C10dStore:
        """Returns the same store with a separate name space."""
        from torch.distributed import PrefixStore
        return C10dStore(PrefixStore(name, self._store))

    def put(self, key: str, value: bytes) -> None:
        self._store.set(key, value)

    def _has(self, key: str) -> bool:
        if hasattr(self._store, "check"):
            return bool(self._store.check([key]))
        try:  # torch 1.13
            self._store.wait([key], timedelta(milliseconds=1))
            return True
        except RuntimeError:
            return False

    def get(self, key: str) -> bytes | None:
        return bytes(self._store.get(key)) if self._has(key) else None

    def wait(self, key: str) -> bytes:
        """Waits until a key has a value, and returns it."""
        return bytes(self._store.get(key))

    def remove(self, key: str) -> None:
        self._store.delete_key(key)


def store_struct(store: Store, rank: int, size: int, raised: list[BaseException]) -> Any:
    held: dict[str, bytes] = {}  # the last value that `get` returned, kept alive

    def guarded(action: Callable[..., int]) -> Callable[..., int]:
        def run(user: object, key: bytes, *arguments: Any) -> int:
            try:
                return action(key.decode(), *arguments)
            except BaseException as e:
                raised.append(e)
                return -1
        return run

    def put(key: str, value: int, count: int) -> int:
        store.put(key, ctypes.string_at(value, count))
        return 0

    def get(key: str, value: Any, count: Any) -> int:
        found = store.get(key)
        if found is None:
            return 0
        held["last"] = found
        value[0] = ctypes.cast(c_char_p(found), c_void_p).value
        count[0] = len(found)
        return 1

    def remove(key: str) -> int:
        store.remove(key)
        return 0

    return CStore(rank, size, None, PUT(guarded(put)), GET(guarded(get)), REMOVE(guarded(remove)))
