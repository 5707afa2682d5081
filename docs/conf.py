"""Configuration of the documentation site. Build it with ``make docs``; nothing is downloaded."""

import os
import re
import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "_extensions"))

# One thread and a cache of its own: the gallery gives the same figures on every machine, and the user's cache stays as it is.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ["SIGHTUNSEEN_CACHE"] = str(HERE / "_build" / "cache")

from sightunseen import __version__  # noqa: E402

project = "sightunseen"
author = "the sightunseen developers"
copyright = author
release = version = __version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "myst_parser",
    "sphinx_design",
    "sphinx_copybutton",
    "sphinx_gallery.gen_gallery",
    "api_names",
    "glossary_links",
    "leaderboard",
]
exclude_patterns = ["_build", "_extensions", "_templates", "gallery"]
templates_path = ["_templates"]
nitpicky = True
nitpick_ignore = [("py:meth", "fit")]  # of the base classes, which do not define it

# Markdown
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 4
suppress_warnings = ["myst.header"]  # decision records begin with a second-level heading

# Docstrings
autosummary_generate = True
autosummary_imported_members = False
autodoc_typehints = "none"  # numpydoc sections name the types
numpydoc_show_class_members = False  # the class template lists them
numpydoc_xref_param_type = False
toc_object_entries = False

# Gallery
sphinx_gallery_conf = {
    "examples_dirs": "gallery",
    "gallery_dirs": "generated/gallery",
    "filename_pattern": r"\.py$",
    "abort_on_example_error": True,
    "download_all_examples": False,
    "write_computation_times": False,
    "show_memory": False,
    "show_signature": False,
    "remove_config_comments": True,
    "reference_url": {"sightunseen": None},
    "doc_module": ("sightunseen",),
    "within_subsection_order": "FileNameSortKey",
}

# Appearance
html_theme = "pydata_sphinx_theme"
html_title = "sightunseen"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "show_prev_next": False,
    "navigation_with_keys": False,
    "header_links_before_dropdown": 7,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "show_toc_level": 2,
}
html_sidebars = {"index": [], "quickstart": [], "faq": [], "leaderboard": [], "glossary": []}
copybutton_exclude = ".linenos, .gp, .go"


def link_pages_of_the_root(app, docname: str, source: list[str]) -> None:
    """Turn links to files in the root of the repository into links to the pages that include them."""
    source[0] = re.sub(
        r"\]\((?:\.\./)+(CHANGELOG|CONTRIBUTING|SECURITY)\.md", lambda match: f"](/{match[1].lower()}.md", source[0]
    )


def setup(app) -> None:
    """Register the event handler."""
    app.connect("source-read", link_pages_of_the_root)
