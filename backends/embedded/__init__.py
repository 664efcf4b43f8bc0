"""The engine in one folder: SQLite holds the truth, tantivy the text index, numpy the vectors.

`EmbeddedBackend` is the only public name.
"""

from __future__ import annotations

from agentmem.backends.embedded._backend import EmbeddedBackend

__all__ = ["EmbeddedBackend"]
