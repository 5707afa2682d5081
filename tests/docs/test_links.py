"""Links between the pages of the documentation and the README: files and headings exist."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LEFT_OUT = ("_build", "generated", "_templates")
PAGES = sorted(
    [*ROOT.glob("*.md"), *(path for path in (ROOT / "docs").rglob("*.md") if not {*path.relative_to(ROOT).parts} & {*LEFT_OUT})]
)
LINK = re.compile(r"\]\((?P<target>[^()\s]+(?:\([^()\s]*\))?[^()\s]*)\)|^:link: (?P<card>\S+)$", re.MULTILINE)
CODE = re.compile(r"^```.*?^```$|`[^`\n]*`", re.MULTILINE | re.DOTALL)
DIRECTIVE = re.compile(r"^```\{toctree\}.*?^```$", re.MULTILINE | re.DOTALL)
EXTERNAL = ("http://", "https://", "mailto:")
ABSOLUTE = re.compile(r"https?://[^/]+/[^/]+/sightunseen/(?:blob|raw)/[^/]+/(?P<path>[^#?]+)")  # of the README on PyPI
BUILT = "generated/"  # written when the site is built, which checks it


def anchors_of(page: Path) -> set[str]:
    """Anchors of the headings of a page, as GitHub and MyST make them."""
    text = re.sub(r"^```.*?^```$", "", page.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
    anchors: set[str] = set()
    for heading in re.findall(r"^#+ (.+)$", text, re.MULTILINE):
        plain = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").strip().lower()
        anchor = re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")
        anchors.add(next(name for k in range(100) if (name := f"{anchor}-{k}" if k else anchor) not in anchors))
    return anchors


def faults_of(page: Path) -> list[str]:
    """Links of a page that lead nowhere."""
    found = []
    for match in LINK.finditer(CODE.sub("", page.read_text("utf-8"))):
        target = match["target"] or f"{match['card']}.md"
        absolute = ABSOLUTE.fullmatch(target)
        if absolute:
            found += [] if (ROOT / absolute["path"]).exists() else [target]
            continue
        path, _, anchor = target.partition("#")
        if target.startswith(EXTERNAL) or BUILT in path:
            continue
        file = (page.parent / path).resolve() if path else page
        if not file.exists() or (anchor and file.suffix == ".md" and anchor not in anchors_of(file)):
            found.append(target)
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_to_files_and_headings(page: Path) -> None:
    assert faults_of(page) == []


@pytest.mark.parametrize("link", ["absent.md", "there.md#absent", "#absent"])
def test_a_link_that_leads_nowhere_is_found(link: str, tmp_path: Path) -> None:
    (tmp_path / "there.md").write_text("# Here\n")
    page = tmp_path / "page.md"
    page.write_text(f"# Title\n[good](there.md#here) [title](#title) [bad]({link})\n")
    assert faults_of(page) == [link]


def test_every_page_is_in_a_table_of_contents() -> None:
    docs = ROOT / "docs"
    listed: set[str] = set()
    for page in PAGES:
        for toctree in DIRECTIVE.findall(page.read_text("utf-8")):
            entries = [line.strip() for line in toctree.splitlines()[1:-1] if line.strip() and not line.startswith(":")]
            for entry in entries:
                listed |= {path.relative_to(docs).as_posix() for path in page.parent.glob(f"{entry}.md")}
    pages = {page.relative_to(docs).as_posix() for page in PAGES if docs in page.parents}
    assert pages - listed == {"index.md"}
