"""The version, the dependency ranges, the locks, the Makefile and the layers of the package."""

import ast
import os
import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).resolve().parents[1]
LOCKS = {"3.10": ROOT / "requirements/py310.lock", "3.11": ROOT / "requirements/py311.lock"}

both_locks = pytest.mark.parametrize("python", sorted(LOCKS))


# --- the version and setup.py ---


@pytest.fixture(scope="module")
def setup_arguments():
    setuptools = pytest.importorskip("setuptools")
    caught = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(setuptools, "setup", caught.update)
        patch.chdir(ROOT)
        runpy.run_path(str(ROOT / "setup.py"))
    return caught


def test_version_is_the_same_everywhere(setup_arguments):
    written = runpy.run_path(str(ROOT / "tfdpnorm/_version.py"))["__version__"]
    assert setup_arguments["version"] == written
    answer = run_python("import tfdpnorm; print(tfdpnorm.__version__)")
    assert answer.strip() == written


def test_version_is_written_once(setup_arguments):
    version = setup_arguments["version"]
    places = [ROOT / "setup.py", ROOT / "pyproject.toml", *(ROOT / "tfdpnorm").rglob("*.py")]
    holders = [p.relative_to(ROOT) for p in places if f'"{version}"' in p.read_text("utf-8")]
    assert holders == [Path("tfdpnorm/_version.py")]


def test_every_folder_with_code_is_packaged(setup_arguments):
    folders = {
        ".".join(path.parent.relative_to(ROOT).parts)
        for top in ("tfdpnorm", "trainers")
        for path in (ROOT / top).rglob("*.py")
    }
    assert folders == set(setup_arguments["packages"])


def test_console_script_leads_to_a_function(setup_arguments):
    (script,) = setup_arguments["entry_points"]["console_scripts"]
    name, target = (part.strip() for part in script.split("="))
    assert name == "tfdpnorm-epsilon"
    module, function = target.split(":")
    path = ROOT.joinpath(*module.split(".")).with_suffix(".py")
    if not path.exists():
        pytest.skip(f"{module} is not written yet")
    defined = [node.name for node in parse(path).body if isinstance(node, ast.FunctionDef)]
    assert function in defined


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


@both_locks
def test_lock_lies_within_the_ranges(python, setup_arguments):
    locked = pins(LOCKS[python].read_text("utf-8"))
    wanted = setup_arguments["install_requires"] + setup_arguments["extras_require"]["dev"]
    assert outside_the_ranges(locked, wanted, python) == []


def test_a_pin_outside_its_range_is_noticed():
    locked = pins(f"numpy==2.0.1 \\\n    --hash=sha256:{'0' * 64}\n    # via x\n")
    assert outside_the_ranges(locked, ["numpy>=1.23,<2"], "3.11") == ["numpy>=1.23,<2"]
    assert outside_the_ranges(locked, ["scipy"], "3.11") == ["scipy"]
    assert outside_the_ranges(locked, ["numpy>=2", "scipy; python_version<'3.11'"], "3.11") == []


@both_locks
def test_lock_names_no_place(python):
    text = LOCKS[python].read_text("utf-8")
    assert "://" not in text
    assert "--index" not in text and "--find-links" not in text and "--extra-index" not in text
    assert not re.search(r"(^|\s)(\.{0,2}|~)/\w", text), "a path"
    assert " @ " not in text and "-e " not in text


def test_pythons_of_the_locks_are_those_of_setup(setup_arguments):
    allowed = SpecifierSet(setup_arguments["python_requires"])
    assert [v for v in ("3.9.18", "3.10.0", "3.11.9", "3.12.0") if v in allowed] == [
        "3.10.0",
        "3.11.9",
    ]


def test_gpu_extra_is_the_same_tensorflow(setup_arguments):
    (gpu,) = map(Requirement, setup_arguments["extras_require"]["gpu"])
    (base,) = (
        requirement
        for requirement in map(Requirement, setup_arguments["install_requires"])
        if requirement.name == "tensorflow"
    )
    assert gpu.name == "tensorflow" and gpu.extras == {"and-cuda"}
    assert gpu.specifier == base.specifier


# --- the Makefile's choice of a Python ---


def fake_python(path, version):
    """An executable that answers like a Python of that version; None: one that fails."""
    body = "exit 127" if version is None else f"echo {version}"
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return path


def check_python(*arguments, path=None):
    if shutil.which("make") is None:
        pytest.skip("there is no make here")
    hidden = ("MAKE", "MFLAGS", "GNUMAKEFLAGS", "PYTHON", "PYTEST_ARGS", "LOCKED")
    environment = {k: v for k, v in os.environ.items() if not k.startswith(hidden)}
    if path is not None:
        environment["PATH"] = f"{path}:/usr/bin:/bin"
    return subprocess.run(
        ["make", "--no-print-directory", "check-python", *arguments],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
    )


def the_sentence(result):
    assert result.returncode != 0
    assert result.stdout == ""
    own, makes = result.stderr.splitlines()
    assert makes.startswith("make: ***")
    assert "3.10 or 3.11" in own
    assert own.endswith(".")
    return own


@pytest.mark.parametrize("version", ["3.12.1", "3.13.0", "3.9.18", "2.7.18", "3.1.5"])
def test_makefile_refuses_a_python_that_cannot_work(tmp_path, version):
    python = fake_python(tmp_path / "some python", version)
    sentence = the_sentence(check_python(f"PYTHON={python}"))
    assert f"{python} (Python {version})" in sentence


def test_makefile_refuses_a_python_that_does_not_run(tmp_path):
    python = fake_python(tmp_path / "shim", None)
    assert "does not run" in the_sentence(check_python(f"PYTHON={python}"))


def test_makefile_names_all_it_found(tmp_path):
    fake_python(tmp_path / "python3.11", None)
    fake_python(tmp_path / "python3.10", None)
    fake_python(tmp_path / "python3", "3.12.1")
    fake_python(tmp_path / "python", "3.9.18")
    sentence = the_sentence(check_python(path=tmp_path))
    assert "python3 (Python 3.12.1), python (Python 3.9.18)" in sentence
    assert "python3.11 (" not in sentence


@pytest.mark.parametrize("name", ["python3.11", "python3.10", "python3", "python"])
def test_makefile_passes_over_what_cannot_work(tmp_path, name):
    names = ("python3.11", "python3.10", "python3", "python")
    for other, version in zip(names, (None, None, "3.12.1", "3.9.18"), strict=True):
        fake_python(tmp_path / other, version)
    fake_python(tmp_path / name, "3.10.4")
    result = check_python(path=tmp_path)
    assert (result.returncode, result.stdout) == (0, f"{name} (Python 3.10.4)\n"), result.stderr


# --- what importing loads ---


def run_python(code):
    result = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=120
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


@pytest.mark.parametrize("module", ["tfdpnorm", "tfdpnorm.privacy"])
def test_import_does_not_load_tensorflow(module):
    if not ROOT.joinpath(*module.split("."), "__init__.py").exists():
        pytest.skip(f"{module} is not written yet")
    loaded = run_python(f"import sys, {module}; print('tensorflow' in sys.modules)")
    assert loaded.strip() == "False"


# --- the layers of the package, read from the imports of the source ---


def parse(path):
    return ast.parse(path.read_text("utf-8"), filename=str(path))


def modules_under(root, package="tfdpnorm"):
    """Dotted name to path, of every module of the package in the folder `root`."""
    modules = {}
    for path in sorted((root / package).rglob("*.py")):
        parts = path.relative_to(root).with_suffix("").parts
        modules[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return modules


def is_type_checking(node):
    return isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING")


def imports_of(name, path, modules, module_level=False):
    """The modules that one module imports, by absolute name.

    `from a import b` counts as a.b if that is a module of the package, as a otherwise.
    With `module_level`, what a function body or TYPE_CHECKING holds is left out.
    """
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    found = set()

    def visit(node):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parts = package.split(".")
                parts = parts[: len(parts) - node.level + 1]
                base = ".".join(parts + ([base] if base else []))
            for alias in node.names:
                full = f"{base}.{alias.name}"
                found.add(full if full in modules else base)
        elif module_level and isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            return
        elif module_level and is_type_checking(node):
            for child in node.orelse:
                visit(child)
            return
        for child in ast.iter_child_nodes(node):
            visit(child)

    visit(parse(path))
    return found


def within(module, package):
    return module == package or module.startswith(package + ".")


def parents(module):
    parts = module.split(".")
    return [".".join(parts[:n]) for n in range(1, len(parts))]


def load_graph(modules):
    """Which modules of the package each one makes Python load when it is imported itself.

    Importing a.b.c runs a and a.b first; they count unless the importer lies inside them,
    in which case they are being loaded already.
    """
    graph = {}
    for name, path in modules.items():
        direct = {m for m in imports_of(name, path, modules, module_level=True) if m in modules}
        implied = {p for m in direct for p in parents(m) if p in modules and not within(name, p)}
        graph[name] = (direct | implied) - {name}
    return graph


def find_cycle(graph):
    """The modules of one cycle in order, or None."""
    done, trail = set(), []

    def visit(name):
        if name in trail:
            return trail[trail.index(name) :] + [name]
        if name in done:
            return None
        trail.append(name)
        for target in sorted(graph[name]):
            cycle = visit(target)
            if cycle:
                return cycle
        trail.pop()
        done.add(name)
        return None

    for name in sorted(graph):
        cycle = visit(name)
        if cycle:
            return cycle
    return None


def forbidden_imports(modules):
    """What breaks the layers, one line for each import."""
    foundation = set(sys.stdlib_module_names) | {"tensorflow", "numpy"}
    allowed = {
        "tfdpnorm.layers": ["tfdpnorm.layers"],
        "tfdpnorm.gradients": ["tfdpnorm.gradients", "tfdpnorm.layers"],
    }
    faults = []
    for name, path in modules.items():
        imported = imports_of(name, path, modules)
        faults += [f"{name} imports {m}" for m in sorted(imported) if within(m, "trainers")]
        for package, own in allowed.items():
            if within(name, package):
                faults += [
                    f"{name} imports {m}"
                    for m in sorted(imported)
                    if m.split(".")[0] not in foundation and not any(within(m, o) for o in own)
                ]
    return faults


def tensorflow_loaded_by(package, modules):
    """The modules at which importing `package`, or anything in it, comes to load TensorFlow."""
    graph = load_graph(modules)
    waiting = [name for name in modules if within(name, package)]
    waiting += [p for p in parents(package) if p in modules]
    seen = set()
    while waiting:
        name = waiting.pop()
        if name not in seen:
            seen.add(name)
            waiting += graph[name]
    heavy = ("tensorflow", "keras", "tensorflow_privacy", "tensorflow_datasets", "keras_tuner")
    return sorted(
        name
        for name in seen
        if any(
            within(m, h)
            for m in imports_of(name, modules[name], modules, module_level=True)
            for h in heavy
        )
    )


def test_layers_of_the_package():
    assert forbidden_imports(modules_under(ROOT)) == []


def test_no_circular_imports():
    cycle = find_cycle(load_graph(modules_under(ROOT)))
    assert cycle is None, " -> ".join(cycle)


def test_privacy_loads_no_tensorflow():
    assert tensorflow_loaded_by("tfdpnorm.privacy", modules_under(ROOT)) == []


@pytest.fixture
def small_package(tmp_path):
    """A sound package in the layout of tfdpnorm, to plant faults in."""
    sources = {
        "__init__": "",
        "layers/__init__": "from tfdpnorm.layers.scale import Scale",
        "layers/scale": "import math\nimport numpy as np\nimport tensorflow as tf",
        "gradients/__init__": "",
        "gradients/clip": "import tensorflow as tf\nfrom ..layers import Scale",
        "privacy/__init__": "from .budget import Budget",
        "privacy/budget": "import dp_accounting\ndef f():\n    import tensorflow",
        "training/__init__": "",
        "training/model": "from tfdpnorm import gradients, privacy\nimport tensorflow as tf",
    }

    def plant(**changes):
        for name, text in {**sources, **changes}.items():
            path = tmp_path / "tfdpnorm" / f"{name}.py"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return modules_under(tmp_path)

    return plant


def test_a_sound_package_passes(small_package):
    modules = small_package()
    assert forbidden_imports(modules) == []
    assert find_cycle(load_graph(modules)) is None
    assert tensorflow_loaded_by("tfdpnorm.privacy", modules) == []


@pytest.mark.parametrize(
    "module, text",
    [
        ("layers/scale", "import keras_tuner"),
        ("layers/scale", "from tfdpnorm.gradients.clip import clip"),
        ("layers/scale", "from ..gradients import clip"),
        ("layers/scale", "from .. import gradients"),
        ("layers/scale", "def f():\n    from tfdpnorm import training"),
        ("gradients/clip", "from tfdpnorm.privacy import Budget"),
        ("gradients/clip", "import sklearn.metrics"),
        ("training/model", "import trainers.demo"),
        ("privacy/budget", "def f():\n    from trainers import demo"),
    ],
)
def test_a_forbidden_import_is_noticed(small_package, module, text):
    (fault,) = forbidden_imports(small_package(**{module: text}))
    assert fault.startswith(f"tfdpnorm.{module.replace('/', '.')} imports ")


@pytest.mark.parametrize(
    "changes",
    [
        {"layers/scale": "from . import other", "layers/other": "from .scale import Scale"},
        {"layers/scale": "from tfdpnorm.layers import Scale"},
        {"privacy/budget": "from tfdpnorm.training import model"},
        {
            "gradients/__init__": "from .clip import clip",
            "layers/scale": "import tfdpnorm.gradients",
        },
        {  # only through the __init__ that an import of a module inside it runs
            "gradients/__init__": "from tfdpnorm.training import model",
            "training/model": "from tfdpnorm.gradients.clip import clip",
        },
    ],
)
def test_a_circle_is_noticed(small_package, changes):
    cycle = find_cycle(load_graph(small_package(**changes)))
    assert cycle and cycle[0] == cycle[-1] and len(cycle) > 2


def test_imports_inside_functions_make_no_circle(small_package):
    late = "def f():\n    from tfdpnorm.training import model\nclass A:\n    def g(self):\n        "
    late += "import tfdpnorm.training.model\n"
    assert find_cycle(load_graph(small_package(**{"layers/scale": late}))) is None


@pytest.mark.parametrize(
    "changes, place",
    [
        ({"privacy/budget": "import tensorflow as tf"}, "privacy.budget"),
        ({"privacy/budget": "try:\n    import keras\nexcept E:\n    pass"}, "privacy.budget"),
        ({"privacy/budget": "from tfdpnorm.layers import Scale"}, "layers.scale"),
        ({"__init__": "from tfdpnorm.layers.scale import Scale"}, "layers.scale"),
    ],
)
def test_tensorflow_in_privacy_is_noticed(small_package, changes, place):
    modules = small_package(**changes)
    assert tensorflow_loaded_by("tfdpnorm.privacy", modules) == [f"tfdpnorm.{place}"]
