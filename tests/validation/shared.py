"""Real samples and the seed's text, where they are present; the suite does not depend on them."""

from __future__ import annotations

from pathlib import Path

import pytest

SHARED = Path(__file__).resolve().parents[3] / "shared"
needs_shared = pytest.mark.skipif(not SHARED.is_dir(), reason=f"no samples in {SHARED}")
