"""Flags made from the fields of a spec: the programs hold no list of them."""

import dataclasses

import pytest
from absl import flags

from trainers import spec_flags
from trainers.specs import AuditSpec, NonPrivateSpec, PrivateSpec, SearchSpec
from trainers.specs.options import Spec, option, options


@dataclasses.dataclass(frozen=True, kw_only=True)
class Part(Spec):
    height: float = option(1.5, "How high it is.", flag="high")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Toy(Spec):
    epochs: float | None = option(None, "Passes; or --steps.")
    steps: int | None = option(None, "Updates; or --epochs.", instead_of="epochs")
    momentum: float = option(0.9, "Momentum.")
    part: Part = Part()
    color: str | None = option(None, "Its colour; default: none.", choices=("red", "blue"))
    parts: int | str | None = option(None, "Parts; default: one.", at_least=1, words=("many",))
    secret: int = option(3, "Nobody's business.", flag=False)
    seed: int = option(7, "Seeds the toy.")


@pytest.fixture
def parsed(monkeypatch):
    """Returns a function (arguments, **options of `define`) -> the `FlagValues` of `Toy`."""

    def parse(*arguments, spec=Toy, **options):
        values = flags.FlagValues()
        monkeypatch.setattr(spec_flags, "FLAGS", values)
        for name in (
            "DEFINE",
            *(f"DEFINE_{kind}" for kind in ("string", "integer", "float", "bool", "enum")),
        ):
            define = getattr(flags, name)
            monkeypatch.setattr(
                spec_flags.flags,
                name,
                lambda *given, define=define: define(*given, flag_values=values),
            )
        register = flags.register_multi_flags_validator
        monkeypatch.setattr(
            spec_flags.flags,
            "register_multi_flags_validator",
            lambda *given, **more: register(*given, **more, flag_values=values),
        )
        spec_flags.define(spec, **options)
        monkeypatch.undo()
        monkeypatch.setattr(spec_flags, "FLAGS", values)
        values(["program", *arguments])
        return values

    return parse


def test_names_types_helps_and_choices_come_from_the_fields(parsed):
    values = parsed()
    assert {"high", "color", "seed", "steps"} <= set(values)
    assert not {"height", "secret"} & set(values)
    assert values["high"].help == "How high it is (default: the experiment's own)."
    assert values["color"].help == "<red|blue>: Its colour; default: none."
    assert isinstance(values["color"], flags.EnumFlag)
    assert isinstance(values["seed"].parser, flags.IntegerParser)
    assert isinstance(values["high"].parser, flags.FloatParser)


def test_only_what_was_given_reaches_the_spec(parsed):
    parsed()
    assert spec_flags.parsed(Toy) == {}
    parsed("--high=0", "--seed=0", "--color=red")
    assert spec_flags.parsed(Toy) == {"height": 0.0, "seed": 0, "color": "red"}


def test_a_flag_takes_numbers_and_words(parsed):
    for text, value in (("3", 3), ("many", "many")):
        parsed(f"--parts={text}")
        assert spec_flags.parsed(Toy) == {"parts": value}
    Toy(parts="many", steps=1)
    for text in ("few", "", "2.5"):
        with pytest.raises(flags.IllegalFlagValueError, match="parts"):
            parsed(f"--parts={text}")
    for value in ("few", 0, 2.5):
        with pytest.raises(ValueError, match="Expected parts to be a whole number >= 1"):
            Toy(parts=value, steps=1)


def test_a_program_may_have_defaults_helps_and_gaps_of_its_own(parsed):
    values = parsed(
        own={"height": 9.0}, help={"seed": "Another seed."}, leave_out=("color", "momentum")
    )
    assert "color" not in values and "momentum" not in values
    assert values["seed"].help == "Another seed (default: the experiment's own)."
    assert spec_flags.parsed(Toy) == {"height": 9.0}


@pytest.mark.parametrize(
    "arguments, required, refused",
    [
        ([], (), False),
        ([], ("epochs",), True),
        (["--steps=1"], ("epochs",), False),
        (["--steps=0", "--epochs=0"], (), True),
        (["--steps=1", "--epochs=1"], ("epochs",), True),
    ],
)
def test_rivals_are_not_given_together(parsed, arguments, required, refused):
    words = "exactly" if required else "at most"
    if not refused:
        parsed(*arguments, required=required)
        return
    with pytest.raises(flags.IllegalFlagValueError, match=f"{words} one of --epochs and --steps"):
        parsed(*arguments, required=required)


@pytest.mark.parametrize("spec", [PrivateSpec, NonPrivateSpec, SearchSpec, AuditSpec])
def test_each_flag_of_a_spec_is_defined_and_helps(parsed, spec):
    values = parsed(spec=spec)
    for name, its_option in options(spec).items():
        flag = spec_flags.flag_name(name, its_option)
        assert (flag in values) == bool(its_option.flag)
        assert not its_option.flag or len(values[flag].help) > 8
