"""Something done in a thread while something else is done that does not depend on it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager


@contextmanager
def meanwhile(work: Callable[[], object]) -> Iterator[None]:
    """Do `work` while the block runs; both have ended afterwards, whatever failed.

    So an undo that follows meets nothing that still goes on, also after Ctrl-C, which strikes in
    the block. Raises what the block raises, otherwise what `work` raises.
    """
    with ThreadPoolExecutor(max_workers=1) as thread:
        done = thread.submit(work)
        yield
    done.result()
