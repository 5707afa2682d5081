"""Names from files of others: without consent they open only what is installed, a local ONNX file or a local folder."""

import sys
from pathlib import Path

import pytest

from sightunseen.core.errors import SettingsError
from sightunseen.core.trust import CONSENT, PACKAGED, allow_downloads, check_recorded_name

OTHERS = [
    *("sentence-transformers:attacker/model", "sentence-transformers:/home/user/model", "timm:hf-hub:attacker/model"),
    *("torchvision:resnet101", "open_clip:ViT-B-32/openai", "open_clip:local-dir:/tmp/model", "", "ONNX:model.onnx"),
    *("onnx://server/share/model.onnx", "onnx:\\\\server\\share\\model.onnx", "onnx:/\\server\\model.onnx"),
    *("hf:attacker/model", "hf:/no/such/folder", "hf://server/share", "st:attacker/model"),
    *("onnx:https://server/model.onnx", "onnx:model\n.onnx", "onnx:model\0.onnx", "efficientnet_lite0/../x"),
]


@pytest.fixture(autouse=True)
def _no_consent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(CONSENT, raising=False)


@pytest.mark.parametrize("name", [*PACKAGED, "onnx:model.onnx", "onnx:/data/model.onnx?mean=127&std=128"])
def test_installed_and_local_names_need_no_consent(name: str) -> None:
    assert check_recorded_name(name, "backbone") == name


def test_a_local_folder_of_transformers_needs_no_consent(tmp_path: Path) -> None:
    for what in ("backbone", "text encoder"):
        assert check_recorded_name(f"hf:{tmp_path}", what) == f"hf:{tmp_path}"
    with pytest.raises(SettingsError, match="allow-downloads"):  # modules.json of such a folder names classes to import
        check_recorded_name(f"st:{tmp_path}", "text encoder")


def test_a_plug_in_needs_a_consent_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CONSENT, "1")
    with pytest.raises(SettingsError, match=r"--allow-plugin attacker\.module:factory"):
        check_recorded_name("attacker.module:factory", "backbone")
    assert "attacker" not in sys.modules


@pytest.mark.parametrize("name", OTHERS)
def test_other_names_need_consent(name: str) -> None:
    with pytest.raises(SettingsError, match=rf"may download and run .* --allow-downloads or set {CONSENT}=1"):
        check_recorded_name(name, "backbone")


@pytest.mark.parametrize("name", OTHERS)
def test_consent_allows_other_names(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CONSENT, "0")
    allow_downloads()
    assert check_recorded_name(name, "backbone") == name


@pytest.mark.parametrize("value", ["", "0", "yes"])
def test_only_one_is_consent(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CONSENT, value)
    with pytest.raises(SettingsError):
        check_recorded_name("timm:resnet50", "backbone")


def test_a_long_name_is_shortened_in_the_error() -> None:
    with pytest.raises(SettingsError) as caught:
        check_recorded_name("timm:" + "x" * 10**5, "backbone")
    assert len(str(caught.value)) < 400
