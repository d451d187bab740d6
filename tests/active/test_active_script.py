"""The script behind docs/results/active.md."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "reproduce" / "active.py"


@pytest.mark.slow
def test_the_script_writes_its_page(tmp_path: Path) -> None:
    page = tmp_path / "active.md"
    subprocess.run([sys.executable, str(SCRIPT), "--quick", "--out", str(page)], check=True, capture_output=True)
    text = page.read_text()
    for title in ("Figure 2", "Figure 3", "What the defaults rest on", "Large runs"):
        assert f"## {title}" in text
    assert "nan" not in text
