"""Settings of the store, ``[parts.acme-log]``."""

from __future__ import annotations

import attrs

__all__ = ["LogSettings"]


@attrs.frozen(kw_only=True)
class LogSettings:
    """How the file is written.

    Attributes:
        sync: wait until the disk has each write; without it a power failure may take the last ones.
    """

    sync: bool = True
