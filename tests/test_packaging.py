"""The version, the dependency ranges and the locks."""

import ast
import configparser
import email
import io
import re
import runpy
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

from tests.programs import ROOT

PYTHONS = {"2.15": ("3.10", "3.11"), "2.21": ("3.10", "3.11", "3.12", "3.13")}  # of TensorFlows

every_lock = pytest.mark.parametrize(
    ("tensorflow", "python"), [(tf, python) for tf in PYTHONS for python in PYTHONS[tf]]
)


def lock(tensorflow, python):
    path = ROOT / f"requirements/py{python.replace('.', '')}-tf{tensorflow}.lock"
    return path.read_text("utf-8")


# --- the wheel, and what it says of itself ---


@pytest.fixture(scope="module")
def setup_arguments():
    setuptools = pytest.importorskip("setuptools")
    caught = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(setuptools, "setup", caught.update)
        patch.chdir(ROOT)
        runpy.run_path(str(ROOT / "setup.py"))
    return caught


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The files of the wheel, a dict from name to text. Builds leave files, so a copy is built."""
    pytest.importorskip("setuptools", minversion="77")
    copy = tmp_path_factory.mktemp("checkout")
    for name in ("setup.py", "pyproject.toml", "README.md", "LICENSE", "MANIFEST.in"):
        shutil.copy(ROOT / name, copy)
    for folder in ("tfdpnorm", "trainers"):  # of which one is packaged
        hidden = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / folder, copy / folder, ignore=hidden)
    code = "from setuptools import build_meta; print(build_meta.build_wheel('.'))"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=copy, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr[-2000:]
    with zipfile.ZipFile(copy / done.stdout.split()[-1]) as archive:
        return {name: archive.read(name).decode("utf-8") for name in archive.namelist()}


@pytest.fixture(scope="module")
def metadata(wheel):
    (text,) = [text for name, text in wheel.items() if name.endswith(".dist-info/METADATA")]
    return email.message_from_string(text)


def test_version_is_the_same_everywhere(metadata):
    written = runpy.run_path(str(ROOT / "tfdpnorm/_version.py"))["__version__"]
    assert metadata["Version"] == written
    assert f"\nversion: {written}\n" in (ROOT / "CITATION.cff").read_text("utf-8")
    assert f"\n## {written} " in (ROOT / "CHANGELOG.md").read_text("utf-8")
    code = "import sys, tfdpnorm; print(tfdpnorm.__version__, 'tensorflow' in sys.modules)"
    answer = subprocess.check_output([sys.executable, "-c", code], cwd=ROOT, text=True, timeout=120)
    assert answer.split() == [written, "False"]


def test_version_is_written_once(metadata):
    version = metadata["Version"]
    places = [ROOT / "setup.py", ROOT / "pyproject.toml", *(ROOT / "tfdpnorm").rglob("*.py")]
    holders = [p.relative_to(ROOT) for p in places if f'"{version}"' in p.read_text("utf-8")]
    assert holders == [Path("tfdpnorm/_version.py")]


def test_wheel_holds_exactly_the_modules_of_the_library(wheel):
    modules = {str(path.relative_to(ROOT)) for path in (ROOT / "tfdpnorm").rglob("*.py")}
    typed = {"tfdpnorm/py.typed"} & {str(p.relative_to(ROOT)) for p in ROOT.glob("*/py.typed")}
    own = {name for name in wheel if ".dist-info/" not in name}
    assert own == modules | typed
    assert any(name.endswith("/LICENSE") for name in wheel)


def test_metadata_say_what_pypi_shows(metadata, setup_arguments):
    assert (
        metadata["Name"] == "tfdpnorm" and metadata["Description-Content-Type"] == "text/markdown"
    )
    assert metadata["Requires-Python"] and metadata["Summary"] and metadata["Keywords"]
    pythons = {c.rpartition(" ")[2] for c in metadata.get_all("Classifier") if ":: 3." in c}
    assert pythons == set(PYTHONS["2.21"])
    assert all(": :" not in url and ", https://" in url for url in metadata.get_all("Project-URL"))
    assert set(metadata.get_all("Provides-Extra")) == set(setup_arguments["extras_require"])
    wanted = [Requirement(text).name for text in setup_arguments["install_requires"]]
    found = [Requirement(t) for t in metadata.get_all("Requires-Dist") if "extra" not in t]
    assert sorted(r.name for r in found) == sorted(wanted)


def test_readme_is_rendered_as_on_pypi_and_has_no_dead_link(metadata):
    markdown = pytest.importorskip("readme_renderer.markdown")
    text = metadata.get_payload()
    html = markdown.render(text, stream=io.StringIO())
    assert html is not None and html.count("<pre") >= 3 and html.count("<table") >= 3
    links = re.findall(r'(?:href|src)="([^"]*)"', html)
    assert [link for link in links if not link.startswith(("https://", "#"))] == []


def test_console_scripts_lead_to_functions(wheel):
    (text,) = [text for name, text in wheel.items() if name.endswith("entry_points.txt")]
    parser = configparser.ConfigParser()
    parser.read_string(text)
    scripts = dict(parser["console_scripts"])
    assert sorted(scripts) == ["tfdpnorm-epsilon", "tfdpnorm-verify"]
    for target in scripts.values():
        module, function = target.split(":")
        path = ROOT.joinpath(*module.split(".")).with_suffix(".py")
        body = ast.parse(path.read_text("utf-8")).body
        assert function in [node.name for node in body if isinstance(node, ast.FunctionDef)]


def test_citation_has_the_three_papers():
    text = (ROOT / "CITATION.cff").read_text("utf-8")
    assert text.count("  - type: article\n") == 3
    project = (ROOT / "pyproject.toml").read_text("utf-8")
    urls = re.findall(r"https://arxiv\.org/abs/[\d.]+", text)
    assert len(urls) == 3 and all(url in project for url in urls)


# --- the locks ---


def pins(text):
    """Name to version; anything in the lock which is neither a pin nor a hash is an error."""
    found = {}
    for line in text.replace("\\\n", " ").splitlines():
        line = line.split("#", 1)[0].strip()
        if not line:
            continue
        match = re.fullmatch(r"([A-Za-z0-9._-]+)==(\S+)((?:\s+--hash=sha256:[0-9a-f]{64})+)", line)
        assert match, f"not a pin with hashes: {line}"
        found[canonicalize_name(match[1])] = Version(match[2])
    return found


def outside_the_ranges(locked, requirements, python):
    """The requirements that the pins do not meet on that Python."""
    environment = {"python_version": python, "python_full_version": f"{python}.0", "extra": ""}
    broken = []
    for text in requirements:
        requirement = Requirement(text)
        if requirement.marker and not requirement.marker.evaluate(environment):
            continue
        version = locked.get(canonicalize_name(requirement.name))
        if version is None or version not in requirement.specifier:
            broken.append(text)
    return broken


@every_lock
def test_lock_lies_within_the_ranges_and_has_its_tensorflow(tensorflow, python, setup_arguments):
    locked = pins(lock(tensorflow, python))
    extras = setup_arguments["extras_require"]
    wanted = setup_arguments["install_requires"] + extras["dev"]
    if tensorflow == "2.15":
        wanted = wanted + extras["tensorflow-privacy"]
    assert outside_the_ranges(locked, wanted, python) == []
    assert f"{locked['tensorflow'].major}.{locked['tensorflow'].minor}" == tensorflow
    assert locked["keras"].major == (2 if tensorflow == "2.15" else 3)
    assert ("tensorflow-privacy" in locked) == (tensorflow == "2.15")
    assert "tf-keras" not in locked


def test_a_pin_outside_its_range_is_noticed():
    locked = pins(f"numpy==2.0.1 \\\n    --hash=sha256:{'0' * 64}\n    # via x\n")
    assert outside_the_ranges(locked, ["numpy>=1.23,<2"], "3.11") == ["numpy>=1.23,<2"]
    assert outside_the_ranges(locked, ["scipy"], "3.11") == ["scipy"]
    assert outside_the_ranges(locked, ["numpy>=2", "scipy; python_version<'3.11'"], "3.11") == []


@every_lock
def test_lock_names_no_place(tensorflow, python):
    text = lock(tensorflow, python)
    assert "://" not in text
    assert "--index" not in text and "--find-links" not in text and "--extra-index" not in text
    assert not re.search(r"(^|\s)(\.{0,2}|~)/\w", text), "a path"
    assert " @ " not in text and "-e " not in text


def test_pythons_of_the_locks_are_those_of_the_metadata(metadata):
    allowed = SpecifierSet(metadata["Requires-Python"])
    tried = [f"3.{minor}.{patch}" for minor in range(8, 16) for patch in (0, 9)]
    assert {v.rpartition(".")[0] for v in tried if v in allowed} == set(PYTHONS["2.21"])


def test_the_wheel_requires_what_it_imports(setup_arguments):
    """So pip changes nothing else in an environment that has a supported TensorFlow."""
    imported = set()
    for path in (ROOT / "tfdpnorm").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Import):
                imported |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                imported.add(node.module.split(".")[0])
    of_extras = {"keras_tuner", "tensorflow_privacy", "ai_edge_litert"}  # used where installed
    comes_with_tensorflow = {"keras"}
    ours = {"tfdpnorm", *sys.stdlib_module_names} | of_extras | comes_with_tensorflow
    required = {
        Requirement(text).name.replace("-", "_") for text in setup_arguments["install_requires"]
    }
    assert of_extras < imported and required == imported - ours


@pytest.mark.parametrize(
    ("package", "extra"), [("tfdpnorm/tuning", "tuner"), ("trainers", "trainers")]
)
def test_what_is_not_installed_is_named_with_its_extra(
    monkeypatch, setup_arguments, package, extra
):
    assert extra in setup_arguments["extras_require"]
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ImportError, match=rf"\[{extra}\]"):
        runpy.run_path(str(ROOT / package / "__init__.py"))


def test_gpu_extra_is_the_same_tensorflow(setup_arguments):
    gpu = list(map(Requirement, setup_arguments["extras_require"]["gpu"]))
    base = [
        requirement
        for requirement in map(Requirement, setup_arguments["install_requires"])
        if requirement.name == "tensorflow"
    ]
    assert {r.name for r in gpu} == {"tensorflow"}
    assert all(r.extras == {"and-cuda"} for r in gpu)
    assert [(r.specifier, str(r.marker)) for r in gpu] == [
        (r.specifier, str(r.marker)) for r in base
    ]
