"""A store inside a store: the same operations under keys that begin with a prefix."""

from __future__ import annotations

from hpc_elastic.stores import values
from hpc_elastic.stores.base import Change, Changed, Store
from hpc_elastic.stores.values import Text


class PrefixedStore(Store):
    """What is kept under `<prefix>/<key>` of the store `inner`, by `<key>`.

    Its time-out is its own and begins as that of `inner`. As with torch's, `num_keys` counts all
    keys of `inner`.
    """

    def __init__(self, prefix: Text, inner: Store) -> None:
        super().__init__(inner.timeout)
        self.inner = inner
        self.master_addr_port = inner.master_addr_port
        self._prefix = values.as_key(prefix) + b"/"

    def read(self, key: bytes) -> bytes | None:
        return self.inner.read(self._prefix + key)

    def change(self, key: bytes, make: Change) -> Changed:
        return self.inner.change(self._prefix + key, make)

    def rest(self, pause_s: float, waited_s: float) -> None:
        self.inner.rest(pause_s, waited_s)

    def num_keys(self) -> int:
        return self.inner.num_keys()
