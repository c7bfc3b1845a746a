"""What resources of dlt remember from reading to reading (`dlt.sources.incremental`), kept with the rows it led to.

So neither a failed nor a killed reading moves it on. dlt itself would keep it in a folder of the user's.
"""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def kept_state(written: str | None) -> Iterator[Callable[[], str | None]]:
    """A block in which dlt knows the state that an earlier block has written, or none. Gives a function that writes
    what it knows by then; None without dlt.
    """
    os.environ.setdefault("RUNTIME__DLTHUB_TELEMETRY", "false")  # nothing is sent but what the function asks for
    if "dlt" not in sys.modules:  # what the function's module imports
        yield lambda: None
        return
    from dlt.common.configuration.container import Container
    from dlt.common.json import json
    from dlt.common.pipeline import StateInjectableContext

    state: Any = {} if written is None else json.typed_loads(written)
    with Container().injectable_context(StateInjectableContext(state=state)):
        yield lambda: json.typed_dumps(state)
