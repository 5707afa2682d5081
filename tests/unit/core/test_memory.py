"""Free memory of control groups."""

from pathlib import Path
from typing import Any

import pytest

from sightunseen.core import memory


@pytest.mark.parametrize("own", [True, False], ids=["group of the process", "root of a container"])
def test_cached_files_of_a_control_group_count_as_free(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own: bool) -> None:
    folder = tmp_path / "job" if own else tmp_path
    folder.mkdir(exist_ok=True)
    (folder / "limit").write_text("1000")
    (folder / "use").write_text("900")
    (folder / "memory.stat").write_text("cached 700\nother 5\n")
    monkeypatch.setattr(memory, "CGROUPS", (("group", str(tmp_path), "limit", "use", ("cached",)),))
    groups = tmp_path / "cgroup"
    groups.write_text("3:other:/x\n2:group:/job\n")
    read = Path.read_text

    def redirected(path: Path, *options: Any) -> str:
        return read(groups if str(path) == "/proc/self/cgroup" else path, *options)

    monkeypatch.setattr(Path, "read_text", redirected)
    assert list(memory._cgroup_bounds()) == [800]
