"""What importing loads, the layers of the package, and the private parts of Keras that it uses.

Nothing outside of tfdpnorm/keras_compat leans on private or version-bound parts of Keras and
TensorFlow: all three are read from the source.
"""

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

from tests.each import each
from tests.private_parts import private_parts

ROOT = Path(__file__).resolve().parents[1]


COMPAT = "tfdpnorm.keras_compat"
TUNING = "tfdpnorm.tuning"
# Two engines are made of tensorflow-privacy's parts, and import it in the functions that need it.
TFP_ENGINES = ["tfdpnorm.gradients.engines.tfp"]


# --- what importing loads ---


def run_python(code):
    result = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=120
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


@each("module", ["tfdpnorm", "tfdpnorm.privacy"])
def test_import_does_not_load_tensorflow(module):
    loaded = run_python(f"import sys, {module}; print('tensorflow' in sys.modules)")
    assert loaded.strip() == "False"


def test_every_package_is_an_attribute_of_the_library():
    inside = {path.parent.name for path in (ROOT / "tfdpnorm").glob("*/__init__.py")}
    code = "import sys, tfdpnorm; print(*dir(tfdpnorm)); print('tensorflow' in sys.modules)"
    names, loaded = run_python(code).strip().splitlines()
    assert inside - {"keras_compat"} <= set(names.split()) and loaded == "False"
    print_name = "import tfdpnorm; print(tfdpnorm.audit.__name__)"
    assert run_python(print_name).strip() == "tfdpnorm.audit"


LAZY = ["tfdpnorm", "tfdpnorm.independence", "tfdpnorm.privacy", "tfdpnorm.tuning"]


def names_for_type_checkers(text):
    """Pairs (module, name) that a source imports under `if TYPE_CHECKING:`, each as itself."""
    (block,) = (node for node in ast.parse(text).body if is_type_checking(node))
    found = []
    for node in block.body:
        (alias,) = node.names
        assert alias.name == alias.asname, "an export is imported `as` itself"
        found.append((node.module, alias.name))
    assert len(found) == len(set(found))
    return set(found)


@each("package", LAZY)
def test_type_checkers_see_the_names_that_are_lazy(package):
    path = ROOT.joinpath(*package.split("."), "__init__.py")
    module = importlib.import_module(package)
    lazy = {(source, name) for name, source in module._NAMES.items()}
    lazy |= {(package, name) for name in getattr(module, "_PACKAGES", ())}
    assert names_for_type_checkers(path.read_text("utf-8")) == lazy
    for _, name in lazy:
        assert getattr(module, name) is not None and name in dir(module)
    with pytest.raises(AttributeError, match=f"module '{package}' has no attribute 'absent'"):
        _ = module.absent


def test_the_package_is_marked_as_typed():
    assert (ROOT / "tfdpnorm/py.typed").is_file()


NEEDLESS = ["tensorflow_datasets", "keras_tuner", "matplotlib"]
HEAVY = ["tensorflow", "keras", "scipy", "dp_accounting", *NEEDLESS]
PROGRAMS = [
    "tfdpnorm.privacy.command",
    "tfdpnorm.independence.verification.command",
    *(
        f"trainers.{path.stem}"
        for path in sorted((ROOT / "trainers").glob("*.py"))
        if "__main__" in path.read_text("utf-8")
    ),
]


@each("program", PROGRAMS)
def test_programs_answer_help_without_what_takes_long_to_load(program):
    code = (
        "import runpy, sys\n"
        "sys.argv = ['program', '--help']\n"
        "try:\n"
        f"    runpy.run_module({program!r}, run_name='__main__', alter_sys=True)\n"
        "except SystemExit:\n"
        "    pass\n"
        f"print('loaded:', [name for name in {HEAVY} if name in sys.modules])"
    )
    lines = run_python(code).strip().splitlines()
    assert len(lines) > 5 and lines[-1] == "loaded: []"


def test_the_library_loads_no_data_sets_tuner_or_plots():
    loaded = run_python(
        "import sys\n"
        "from tensorflow import keras\n"
        "assert keras.Model\n"
        "of_keras = set(sys.modules)\n"  # Keras 3 loads what it can plot with
        "import tfdpnorm\n"
        "from tfdpnorm import make_private\n"
        f"print([name for name in {NEEDLESS} if name in sys.modules and name not in of_keras])"
    )
    assert loaded.strip().splitlines()[-1] == "[]"


def test_choices_name_what_there_is():
    from tfdpnorm import choices, models
    from tfdpnorm.gradients.engines import registry
    from tfdpnorm.training import ENGINES

    assert ENGINES == choices.ENGINES == tuple(registry.ENGINES)
    assert set(choices.MODELS) <= set(models.names())


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
    standard = set(sys.stdlib_module_names)
    libraries = ("tensorflow", "numpy")
    ground = ("arguments", "choices", "dtypes", "errors", "files", "plain_graph")
    ground = (*(f"tfdpnorm.{name}" for name in ground), COMPAT)
    allowed = {
        "tfdpnorm.arguments": [],
        "tfdpnorm.choices": [],
        "tfdpnorm.dtypes": libraries,
        "tfdpnorm.errors": [],
        "tfdpnorm.files": [],
        "tfdpnorm.lazy": [],
        "tfdpnorm.memory": [],
        "tfdpnorm.plain_graph": [],
        COMPAT: [COMPAT, "tfdpnorm.plain_graph", "keras", *libraries],
        "tfdpnorm.layers": ["tfdpnorm.layers", *ground, *libraries],
        "tfdpnorm.noise": ["tfdpnorm.noise", *ground, *libraries],
        "tfdpnorm.gradients": ["tfdpnorm.gradients", "tfdpnorm.layers", *ground, *libraries],
    }
    faults = []
    for name, path in modules.items():
        # The library itself names all packages, for type checkers.
        imported = imports_of(name, path, modules, module_level=name == "tfdpnorm")
        above = ["trainers"] if within(name, TUNING) else ["trainers", TUNING]
        faults += [
            f"{name} imports {m}" for m in sorted(imported) if any(within(m, a) for a in above)
        ]
        for package, own in allowed.items():
            if within(name, package):
                faults += [
                    f"{name} imports {m}"
                    for m in sorted(imported)
                    if m.split(".")[0] not in standard
                    and not any(within(m, o) for o in own)
                    and not (name in TFP_ENGINES and within(m, "tensorflow_privacy"))
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


def test_imports_have_no_cycle():
    cycle = find_cycle(load_graph(modules_under(ROOT) | modules_under(ROOT, "trainers")))
    assert cycle is None, " -> ".join(cycle)


@each("package", ["tfdpnorm.privacy", "tfdpnorm.independence.verification"])
def test_accounting_and_the_verifier_load_no_tensorflow(package):
    assert tensorflow_loaded_by(package, modules_under(ROOT)) == []


def test_only_keras_compat_leans_on_private_parts():
    modules = modules_under(ROOT) | modules_under(ROOT, "trainers")
    found = private_parts(modules, COMPAT, exempt=TFP_ENGINES)
    assert list(found) == []


@pytest.fixture
def small_package(tmp_path):
    """A sound package in the layout of tfdpnorm, to plant faults in."""
    sources = {
        "__init__": "",
        "arguments": "import math",
        "files": "import os",
        "keras_compat/__init__": "",
        "keras_compat/walk": "import keras\nimport tensorflow as tf",
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


@each(
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
        ("training/model", "def f():\n    from trainers.runs import private"),
        ("training/model", "def f():\n    from tfdpnorm.tuning import PrivateRandomSearch"),
        ("arguments", "import numpy"),
        ("files", "from tfdpnorm import arguments"),
        ("keras_compat/walk", "from tfdpnorm import files"),
        ("privacy/budget", "def f():\n    from trainers import demo"),
    ],
)
def test_a_forbidden_import_is_noticed(small_package, module, text):
    (fault,) = forbidden_imports(small_package(**{module: text}))
    assert fault.startswith(f"tfdpnorm.{module.replace('/', '.')} imports ")


@each(
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


@each(
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


# --- private parts, planted ---

SOUND = [
    "class A:\n    def f(self, other):\n        self._x = other._x\n        return other._f()\n"
    "    def _f(self): pass",
    "class A:\n    def _f(self): pass\nclass B(A):\n    def _f(self):\n        return super()._f()",
    "class A(B):\n    def f(self):\n        super().__init__()\n        self.__dict__['x'] = 1",
    "import os\nos._exit(1)",
    "def f(pair): return pair._replace(x=1)._asdict(), pair._fields",
    "class A:\n    def f(self): object.__setattr__(self, 'x', 1)",
    "def f(x): return getattr(x, 'name', None), hasattr(x, '__len__'), vars(x)['name']",
    "import inspect\ndef f(builder): return inspect.signature(builder)",
    "import numpy as np\nfrom tfdpnorm import training",
]


@each("text", SOUND)
def test_parts_of_the_project_are_no_private_parts(small_package, text):
    assert private_parts(small_package(**{"layers/scale": text}), COMPAT) == []


LEANING = [
    "def f(layer): return layer._losses",
    "def f(layer): layer._trainable = False",
    "def f(layer): return layer.inner()._losses",
    "class A(Layer):\n    def f(self): return self._losses",
    "class A(Layer):\n    def f(self): return super()._losses",
    "class A(Layer):\n    def _f(self): return super()._f()",
    "def f(layer): return getattr(layer, '_losses', ())",
    "class A(Layer):\n    def f(self): return getattr(self, '_losses', ())",
    "def f(layer): return hasattr(layer, '_hyper')",
    "def f(layer): setattr(layer, '_losses', [])",
    "def f(layer): vars(layer)['_losses'] = []",
    "def f(layer): layer.__dict__['_losses'] = []",
    "def f(layer): return exchanged(layer, _losses=[])",
    "def f(layer): object.__setattr__(layer, 'call', None)",
    "def f(layer): object.__delattr__(layer, 'call')",
    "from tensorflow.python.ops import control_flow_util",
    "import tensorflow.python.ops",
    "from tensorflow import python\nimport tensorflow as tf\nf = tf.python.ops",
    "from keras.src import backend",
    "from tensorflow.keras import src\nfrom keras.src.backend import x",
    "import keras\nf = keras.src.backend",
    "import tensorflow as tf\nf = tf.__internal__.tracking",
    "import tensorflow as tf\nf = tf.config.experimental",
    "import tensorflow as tf\nf = tf.config.optimizer.get_experimental_options()",
    "from tensorflow.keras.layers import experimental",
    "class A(Layer):\n    def f(self): self.add_weight(experimental_autocast=False)",
    "f = Layer.__mro__",
    "import inspect\ndef f(layer): return inspect.signature(layer.call)",
    "import inspect\ndef f(layer): return inspect.signature(getattr(layer, 'call'))",
]


@each("text", LEANING)
def test_a_private_part_is_noticed(small_package, text):
    found = private_parts(small_package(**{"layers/scale": text}), COMPAT)
    assert found and all(place.startswith("tfdpnorm.layers.scale:") for place in found)


@pytest.mark.parametrize("module", ["keras_compat/__init__", "keras_compat/walk"])
def test_keras_compat_may_lean_on_private_parts(small_package, module):
    assert private_parts(small_package(**{module: "\n".join(LEANING[:1])}), COMPAT) == []


def test_names_in_keras_compat_count_as_parts_of_keras(small_package):
    compat = "class A:\n    def f(self): self._losses = []"
    changes = {"keras_compat/losses": compat, "layers/scale": LEANING[0]}
    assert len(private_parts(small_package(**changes), COMPAT)) == 1
