"""What the site has that no page holds: the API, command lines, notebooks, titles of tables."""

import ast
import importlib
import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import docstrings
import jupytext
import nbformat
import sphinx.util.inspect
from tensorflow import keras

ROOT = Path(__file__).resolve().parents[1]


def write_all(folder):
    """Writes the pages of the API and of the command lines into the folder again."""
    folder.mkdir(exist_ok=True)
    pages = {**api_pages(), "commands.md": commands_page(), **notebooks()}
    for old in folder.iterdir():
        if old.name not in pages:
            old.unlink()
    for name, text in pages.items():
        path = folder / name
        if not path.exists() or path.read_text("utf-8") != text:  # Sphinx reads changed files.
            path.write_text(text, "utf-8")


# --- the API ---


def packages():
    """The names of the packages that a program may import, `tfdpnorm` first."""
    import tfdpnorm

    return ["tfdpnorm", *(f"tfdpnorm.{name}" for name in sorted(tfdpnorm._PACKAGES))]


def api_pages():
    """Returns a dict from the name of each page to its text."""
    names = packages()
    index = ["API", "===", "", "One page for each package.", "", ".. toctree::", "   :maxdepth: 1"]
    index += ["", *(f"   {name}" for name in names), ""]
    return {"api.rst": "\n".join(index), **{f"{n}.rst": package_page(n) for n in names}}


def package_page(name):
    """One package: its docstring, a table of its public names, and each of them in full."""
    module = importlib.import_module(name)
    lines = [name, "=" * len(name), "", f".. automodule:: {name}", "   :no-members:", ""]
    public = [n for n in getattr(module, "__all__", ()) if not n.startswith("_")]
    things = {n: getattr(module, n) for n in public}
    things = {n: thing for n, thing in things.items() if not is_module(thing)}
    if not things:
        return "\n".join(lines + modules_of(module))
    if name == "tfdpnorm":
        if sorted(n for names in IN_ORDER.values() for n in names) != sorted(things):
            raise RuntimeError(f"Give each of these a place in IN_ORDER: {sorted(things)}.")
        lines += [f".. currentmodule:: {name}", ""]
        for heading, names in IN_ORDER.items():
            lines += [heading, "-" * len(heading), "", ".. autosummary::", ""]
            lines += [f"   {n}" for n in names] + [""]
            for n in names:
                lines += [*directive(name, n, things[n]), ""]
        return "\n".join(lines)
    top = importlib.import_module("tfdpnorm")
    home = {n: f"~tfdpnorm.{n}" for n in things if n in top._NAMES}
    lines += [f".. currentmodule:: {name}", "", ".. autosummary::", ""]
    lines += [f"   {home.get(n, n)}" for n, thing in things.items() if callable(thing)] + [""]
    for n, thing in things.items():
        if n not in home:
            lines += [*directive(name, n, thing), ""]
    return "\n".join(lines)


# The names of `tfdpnorm`, as a program uses them.
IN_ORDER = {
    "Budget and settings": ["PrivacyBudget", "suggest", "suggested_optimizer", "make_plan"],
    "Training": ["make_private", "PrivateModel", "Clipping", "Views", "RunDir"],
    "Normalisation": [
        "PublicBatchNormalization",
        "PublicBatch",
        "PublicCentering",
        "FrozenBatchNormalization",
        "ScaleNorm",
        "convert_model",
    ],
    "During training": ["PrivateValidation", "WeightAverage"],
    "Without training": ["private_least_squares"],
    "Export": ["fold_public_statistics"],
    "Errors and warnings": ["PrivacyError", "PrivacyWarning"],
}
CONSTANTS = {
    "NORMS": "The values of `norm=` in `build`.",
    "PARTS": "The parts of a network that `build` makes.",
    "PLACEMENTS": "Where the normalisations of a network stand: `norm_placement=` in `build`.",
    "ACCOUNTANTS": "The values of `accountant=` in `make_plan`.",
    "RDP_ORDERS": 'The Rényi orders among which the accountant "rdp" takes the best.',
    "ENGINES": "The values of `engine=` in `make_private`, the fastest first.",
}


def is_module(thing):
    return isinstance(thing, type(sys))


def directive(package, name, thing):
    """The directive for one name of a package. Python keeps no text of a constant."""
    if isinstance(thing, type):
        return [f".. autoclass:: {name}", "   :members:"]
    if callable(thing):
        return [f".. autofunction:: {name}"]
    values = f"   Values: {', '.join(f'``{v!r}``' for v in thing)}." if len(thing) < 10 else ""
    return [f".. py:data:: {package}.{name}", "", f"   {CONSTANTS[name]}", "", values]


def signature_of_init(app, what, name, thing, options, signature, returns):
    """The arguments of a class: Keras' classes seem to take any. Models of ours are not called."""
    if what != "class" or signature != "(*args, **kwargs)":
        return None
    if issubclass(thing, keras.Model):
        return "", returns
    own = sphinx.util.inspect.signature(thing.__init__, bound_method=True)
    return sphinx.util.inspect.stringify_signature(own, show_return_annotation=False), None


def modules_of(package):
    """A list of the modules of a package that exports no names, with their first lines."""
    found = []
    for path in sorted(Path(package.__file__).parent.glob("[!_]*.py")):
        first = ast.get_docstring(ast.parse(path.read_text("utf-8"))).splitlines()[0]
        found.append(f"``{package.__name__}.{path.stem}``\n    {docstrings.escaped(first)}\n")
    return found


# --- the command lines ---


def commands_page():
    """What each program prints if it is called with --help."""
    from trainers.__main__ import programs

    lines = [
        "# Command lines",
        "",
        "`tfdpnorm-epsilon` and `tfdpnorm-verify` are installed with the package. The programs "
        "of `trainers` are run from a checkout. This page is made from what they print with "
        "`--help`.",
        "",
    ]
    called = {
        "tfdpnorm-epsilon": "tfdpnorm.privacy.command",
        "tfdpnorm-verify": "tfdpnorm.independence.verification.command",
    }
    called |= {f"python -m trainers.{name}": f"trainers.{name}" for name in programs()}
    for command, module in called.items():
        lines += [f"## {command}", "", "```text", help_of(module), "```", ""]
    return "\n".join(lines)


def help_of(module):
    """What `python -m module --help` prints, 88 characters wide."""
    environment = {**os.environ, "COLUMNS": "88", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-m", module, "--help"],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )
    if done.returncode not in (0, 1) or not done.stdout.strip():  # absl ends --help with 1.
        raise RuntimeError(f"`python -m {module} --help` failed: {done.stderr[-500:]}")
    return done.stdout.replace(f"{ROOT}/", "").strip()


# --- tutorials ---

TUTORIALS = ROOT / "examples"
EXECUTED = ("digits", "few_patients", "table", "fine_tune_text")
INSTALL = """\
# There is no release on PyPI yet: upload the wheel next to this notebook.
%pip install -q tfdpnorm-*.whl keras-hub matplotlib scikit-learn"""


def not_executed():
    """The programs whose pages have no output: those that are slow, or lack a package."""
    able = EXECUTED if importlib.util.find_spec("keras_hub") else EXECUTED[:-1]
    return [path.stem for path in sorted(TUTORIALS.glob("*.py")) if path.stem not in able]


def read_tutorial(text):
    """A program in the percent format as a notebook."""
    made = jupytext.reads(text, fmt="py:percent")
    made.metadata["language_info"] = {"name": "python"}
    return made


def notebooks():
    """Returns a dict from the file name of each notebook to its text."""
    return {f"{path.stem}.ipynb": notebook(path) for path in sorted(TUTORIALS.glob("*.py"))}


def notebook(path):
    """A program as a notebook, which installs first what it needs."""
    made = read_tutorial(path.read_text("utf-8"))
    made.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3"}
    made.cells.insert(1, nbformat.v4.new_code_cell(INSTALL))
    for number, cell in enumerate(made.cells):  # The same text each time.
        cell.id = f"cell-{number}"
    return jupytext.writes(made, fmt="ipynb")


def complete_tutorials(app, docname, source):
    """Gives each tutorial links to its files, and their list an index for Sphinx."""
    folder, _, name = docname.rpartition("/")
    if docname == "examples/README":
        names = re.findall(r"^\| \[(\w+)\.py\]", source[0], re.MULTILINE)
        source[0] += "\n".join(["", "```{toctree}", ":hidden:", "", *names, "```", ""])
    elif folder == "examples":
        links = (
            f"{{download}}`Notebook <../docs/generated/{name}.ipynb>` and "
            f"{{download}}`program <{name}.py>`."
        )
        if name not in EXECUTED:
            links += " Run either to see its output: this page has none."
        title = re.compile(r'^"""(# [^"\n]*)', re.MULTILINE)
        source[0] = title.sub(rf'"""\1\n\n{links}', source[0], count=1)


# --- tables, and the first page ---


def give_tables_a_title(app, docname, source):
    """Tables in results/ begin without a heading, which a page of the site needs."""
    if docname.startswith("results/") and not source[0].startswith("# "):
        source[0] = f"# Table {docname.rpartition('/')[2]}\n\n{source[0]}"
    if docname.startswith("results/"):
        source[0] = f"---\norphan: true\n---\n{source[0]}"


def redirect_to_the_index(app, exception):
    """The folder of the site opens with its first page."""
    if exception is None and app.builder.format == "html":
        page = '<!doctype html><meta http-equiv="refresh" content="0; url=docs/index.html">\n'
        Path(app.outdir, "index.html").write_text(page)
