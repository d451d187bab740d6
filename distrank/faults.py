"""Named points where a test can end the process as a power cut would.

`DISTRANK_FAULT=publish:manifest` kills the process with SIGKILL at that point. Nothing happens unless it is set.
"""

from __future__ import annotations

import os
import signal

VARIABLE = "DISTRANK_FAULT"


def fault_point(name: str) -> None:
    """Die here if the environment names this point."""
    if os.environ.get(VARIABLE) == name:
        os.kill(os.getpid(), signal.SIGKILL)
