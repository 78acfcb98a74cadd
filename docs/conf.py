"""How Sphinx builds the site: `make docs`.

The source folder is the root of the checkout, so that links from a page to results/, examples/ or
BUILD_NOTES.md are the same on the site and in the repository, and Sphinx checks them.
"""

import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "docs")]
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ["PYTHONPATH"] = str(ROOT)  # The tutorials run in processes of their own.

import docstrings  # noqa: E402
import site_pages  # noqa: E402

from tfdpnorm._version import __version__  # noqa: E402

project = "tfdpnorm"
author = copyright = "tfdpnorm authors"
version = release = __version__
root_doc = "docs/index"

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
]
# Names are listed with the package that has them, also on the pages of these packages.
suppress_warnings = ["autosummary.import_cycle"]

include_patterns = [
    "docs/*.md",
    "docs/generated/*.md",
    "docs/generated/*.rst",
    "examples/README.md",
    "examples/*.py",
    "benchmarks/README.md",
    "results/**.md",
    "BUILD_NOTES.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
]
# Folders that need not be walked through.
exclude_patterns = [".*", "build", "dist", "outputs", "tests", "tfdpnorm", "trainers", "**/*.json"]

# Markdown. Anchors are those of the repository's own pages: the words of a heading.
myst_enable_extensions = ["attrs_block", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 4

# The tutorials: programs with cells. The quick ones run when the site is built, unless neither
# their code nor the version has changed since the last time; `make clean` forgets that.
nb_custom_formats = {".py": "site_pages.read_tutorial"}
nb_execution_mode = "cache"
nb_execution_cache_path = str(ROOT / f"build/tutorials-{__version__}")
nb_execution_in_temp = True
nb_execution_timeout = 600
nb_execution_raise_on_error = True
nb_execution_excludepatterns = [f"examples/{name}.py" for name in site_pages.not_executed()]
nb_merge_streams = True
nb_output_stderr = "remove"

# Docstrings: Google style, in which `x` is code.
default_role = "code"
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_ivar = True
napoleon_custom_sections = ["Privacy", "Reference", ("Call arguments", "params_style")]
autodoc_inherit_docstrings = False
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
maximum_signature_line_length = 80
autosummary_generate = False

html_theme = "furo"
html_title = f"tfdpnorm {release}"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sourcelink = False
pygments_style = "friendly"
pygments_dark_style = "monokai"


def setup(app):
    site_pages.write_all(ROOT / "docs/generated")
    app.connect("source-read", site_pages.give_tables_a_title)
    app.connect("source-read", site_pages.complete_tutorials)
    app.connect("autodoc-process-signature", site_pages.signature_of_init)
    app.connect("autodoc-process-docstring", docstrings.to_rst, priority=400)  # before napoleon
    app.connect("build-finished", site_pages.redirect_to_the_index)
