"""Flags made from the fields of a spec: the programs hold no list of them."""

import dataclasses

import pytest
from absl import flags

from trainers import spec_flags
from trainers.specs.options import Spec, option


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
    seed: int = option(7, "Seeds the toy.")


@pytest.fixture
def parsed(monkeypatch):
    """Returns a function (arguments, **options of `define`) that parses flags of `Toy`."""

    def parse(*arguments, **options):
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
        spec_flags.define(Toy, **options)
        monkeypatch.undo()
        monkeypatch.setattr(spec_flags, "FLAGS", values)
        values(["program", *arguments])

    return parse


def test_only_what_was_given_reaches_the_spec(parsed):
    parsed()
    assert spec_flags.parsed(Toy) == {}
    parsed("--high=0", "--seed=0", "--color=red")
    assert spec_flags.parsed(Toy) == {"height": 0.0, "seed": 0, "color": "red"}


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
