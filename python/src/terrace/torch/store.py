"""torch's store, as one of Terrace's."""
from __future__ import annotations

from typing import Any


class C10dStore:
    """A terrace.Store in a store of c10d."""

    def __init__(self, store: Any) -> None:
        self._store = store

    def put(self, key: str, value: bytes) -> None:
        self._store.set(key, value)

    def get(self, key: str) -> bytes | None:
        return bytes(self._store.get(key)) if self._store.check([key]) else None

    def wait(self, key: str) -> bytes:
        """The value of a key, once it has one."""
        return bytes(self._store.get(key))

    def remove(self, key: str) -> None:
        self._store.delete_key(key)
