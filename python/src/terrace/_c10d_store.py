"""Stores of torch (c10d), as Terrace's."""
from __future__ import annotations

from datetime import timedelta
from typing import Any


class C10dStore:
    """A terrace.Store in a store of c10d: torch.distributed.TCPStore, FileStore, PrefixStore ..."""

    def __init__(self, store: Any) -> None:
        self._store = store

    def under(self, name: str) -> C10dStore:
        """The same store, with names of its own."""
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
        """The value of a key, once it has one."""
        return bytes(self._store.get(key))

    def remove(self, key: str) -> None:
        self._store.delete_key(key)
