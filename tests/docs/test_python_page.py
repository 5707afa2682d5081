"""The blocks of docs/python.md run in order, and give what the page says."""

import re
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

PAGE = Path(__file__).parents[2] / "docs" / "python.md"


@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
def test_blocks_run_in_order(capsys: pytest.CaptureFixture[str]) -> None:
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    names: dict[str, Any] = {}
    for block in blocks:
        exec(compile(block, str(PAGE), "exec"), names)
    printed = capsys.readouterr().out
    assert len(blocks) == 8
    assert list(names["answers"]) == ["class", "probability", "seen", "class_2", "probability_2"]
    assert isinstance(names["answers"], pd.DataFrame)
    assert names["answers"].index[0] == "0.jpg"
    assert printed.count("12 seen and 4 unseen classes") == 4
    assert "text:all-MiniLM-L6-v2" in printed
    assert "both:all-MiniLM-L6-v2" in printed
    assert "okapi" in names["model"].unseen_classes_
