"""Which process a file or folder belongs to, from its name: `<what>@<host>@<pid>@<random>`.

Output folders lie on storage that several machines share, so a name says on which of them its writer can be asked for.
"""

from __future__ import annotations

import os
import platform
import re
import secrets
import time
from pathlib import Path

ABANDONED_SECONDS = 7 * 24 * 3600.0


def host() -> str:
    """This machine's name, in letters that a file name may have."""
    return re.sub(r"[^A-Za-z0-9.-]", "_", platform.node()) or "localhost"


def owned_name(what: str) -> str:
    """A name of this process's own."""
    return f"{what}@{host()}@{os.getpid()}@{secrets.token_hex(4)}"


def is_alive(path: Path) -> bool:
    """Whether the writer of a file or folder with such a name may still be at work.

    Only processes of this machine can be asked; what belongs to another one is left alone until it is a week old.
    """
    parts = path.name.split("@")
    if len(parts) != 4 or not parts[2].isdigit():
        return False
    if parts[1] != host():
        return time.time() - path.stat().st_mtime < ABANDONED_SECONDS
    try:
        os.kill(int(parts[2]), 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
