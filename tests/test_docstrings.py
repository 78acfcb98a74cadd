"""Docstrings of exported names agree with signatures, and their examples run.

Every exported function says what its arguments are and what it returns, every class what its
arguments or fields are; a name of `tfdpnorm` itself also what it raises, with an example.
`make lint` lets pydoclint check the modules of the latter.
"""

import inspect
import re
import textwrap
import warnings

import numpy as np
import pytest
from tensorflow import keras

import tfdpnorm
from tests.programs import ROOT
from tests.public_interface import exported, parameters

TOP = dict.fromkeys(tfdpnorm._NAMES)
# Made by functions of the library, which check the arguments.
MADE_BY_FUNCTIONS = {"LeastSquaresHead", "PrivateModel"}
TO_INHERIT_FROM = {"Rule", "VariationalDropout", "PrivateHyperModel"}
SECTION = re.compile(r"(Args|Attributes|Call arguments|Returns|Raises|Warns|Example|Reference):+")


def sections(docstring):
    """Dict from the headings of a Google-style docstring to their dedented text."""
    found, heading = {}, None
    for line in inspect.cleandoc(docstring or "").splitlines():
        match = SECTION.fullmatch(line)
        if match:
            heading = match[1]
            found[heading] = ""
        elif line and not line.startswith(" "):
            heading = None
        elif heading is not None:
            found[heading] += line + "\n"
    return {heading: textwrap.dedent(text) for heading, text in found.items()}


def described(text):
    """The names that a section of arguments or attributes describes."""
    heads = re.findall(r"^(\*{0,2}\w[*\w, ]*):", text, flags=re.MULTILINE)
    return {name.strip().lstrip("*") for head in heads for name in head.split(",")}


def faults(name, value):
    """What a docstring lacks or has too much, one line each."""
    found = sections(value.__doc__)
    short = name.rpartition(".")[2]
    lines = []
    if not inspect.isclass(value):
        names = set(parameters(value))
        if described(found.get("Args", "")) != names:
            lines.append(f"{name}: Args are not {sorted(names)}")
        if inspect.signature(value).return_annotation != "None" and "Returns" not in found:
            lines.append(f"{name}: no Returns")
    elif hasattr(value, "_fields") or hasattr(value, "__dataclass_fields__"):
        fields = set(getattr(value, "_fields", ())) or set(value.__dataclass_fields__)
        if fields - described(found.get("Attributes", "")):
            lines.append(f"{name}: Attributes are not {sorted(fields)}")
    elif "__init__" in vars(value) and short not in MADE_BY_FUNCTIONS | TO_INHERIT_FROM:
        names = {n for n in parameters(value.__init__) if n not in ("args", "kwargs")}
        if described(found.get("Args", "")) - {"args", "kwargs"} != names:
            lines.append(f"{name}: Args are not {sorted(names)}")
    if short in TOP and not issubclass_of_warnings(value):
        needed = {"Example"} if short in MADE_BY_FUNCTIONS else {"Example", "Raises"}
        lines += [f"{name}: no {heading}" for heading in sorted(needed - set(found))]
    return lines


def issubclass_of_warnings(value):
    return inspect.isclass(value) and issubclass(value, Exception)


def test_docstrings_agree_with_signatures():
    assert [line for name, value in exported() for line in faults(name, value)] == []


def test_disagreement_is_noticed():
    def halved(number, by=2) -> float:
        """Halves.

        Args:
            number: What is halved.
        """
        return number / by

    class Box:
        """A box.

        Args:
            width: In metres.
            depth: In metres.
        """

        def __init__(self, width):
            self.width = width

    assert faults("halved", halved) == [
        "halved: Args are not ['by', 'number']",
        "halved: no Returns",
    ]
    assert faults("Box", Box) == ["Box: Args are not ['width']"]


def test_pydoclint_reads_the_modules_of_all_names():
    makefile = (ROOT / "Makefile").read_text("utf-8")
    (listed,) = re.findall(r"^DOCUMENTED := ((?:.*\\\n)*.*)$", makefile, re.MULTILINE)
    homes = {inspect.getsourcefile(getattr(tfdpnorm, name)) for name in TOP}
    assert {str(ROOT / path) for path in listed.replace("\\\n", " ").split()} == homes


def names_for_examples():
    """What the examples of the docstrings take for granted: a small model, data and a plan."""
    random = np.random.default_rng(0)
    x, y = random.normal(size=[64, 4]).astype(np.float32), random.integers(0, 3, 64)
    model = keras.Sequential(
        [
            keras.Input([4]),
            keras.layers.Dense(8, use_bias=False),
            tfdpnorm.PublicBatchNormalization(),
            keras.layers.Dense(3, activation="softmax"),
        ]
    )
    budget = tfdpnorm.PrivacyBudget(epsilon=4.0, delta=1e-3)
    plan = tfdpnorm.make_plan(
        num_examples=64, expected_batch_size=16, steps=8, l2_norm_clip=1.0, budget=budget
    )
    return {
        "tfdpnorm": tfdpnorm,
        "keras": keras,
        "warnings": warnings,
        "model": model,
        "x": x,
        "y": y,
        "other_x": random.normal(size=[32, 4]).astype(np.float32),
        "other_y": random.integers(0, 3, 32),
        "public_rows": random.normal(size=[16, 4]).astype(np.float32),
        "features": x,
        "budget": budget,
        "plan": plan,
    }


@pytest.mark.parametrize("name", TOP)
def test_examples_run_as_printed(name, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    code = sections(getattr(tfdpnorm, name).__doc__)["Example"]
    assert code.strip()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tfdpnorm.PrivacyWarning)  # of toy sizes
        exec(compile(code, f"<example of {name}>", "exec"), names_for_examples())
    printed = capsys.readouterr().out
    assert ("print(" in code) == bool(printed.strip())
