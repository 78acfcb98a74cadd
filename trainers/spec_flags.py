"""Flags made from the fields of a spec: name, type, help and choices come from their knobs."""

import dataclasses

from absl import flags

from trainers.knobs import choices_of, has_effect, knobs, type_of

FLAGS = flags.FLAGS

# They count as flags of the program that asks for them, so that its --help lists them.
flags.disclaim_key_flags()


def _own(name):
    return "the experiment's own"


def define(spec_class, *, default=_own, leave_out=(), help=None, own=None, required=()):
    """Defines a flag for each field of a spec that is one; a flag left out is None.

    Args:
        spec_class: Class of the spec.
        default: Function from the name of a field to what its help says of the default, "" for
            nothing. It is not asked where the help has the default, or names a rival.
        leave_out: Names of fields that are no flags of this program.
        help: Dict from names of fields to help that replaces their own.
        own: Dict from names of fields to defaults that the program itself has.
        required: Names of fields that must be given, or their rivals in their place.
    """
    help, own = help or {}, own or {}
    shown = {name: knob for name, knob in _flags_of(spec_class).items() if name not in leave_out}
    for name, knob in shown.items():
        text = help.get(name, knob.help)
        is_told = name in own or "default:" in text.lower() or "Or --" in text
        told = "" if is_told else default(name)
        text = f"{text.removesuffix('.')} (default: {told})." if told else text
        _define(flag_name(name, knob), own.get(name), knob, type_of(spec_class, name)[0], text)
    for name, knob in shown.items():
        if knob.instead_of in shown:
            is_required = knob.instead_of in required
            _one_of(knob.instead_of, name, "exactly" if is_required else "at most", is_required)


def given(spec_class):
    """Returns the settings of a spec that were given by flags, a dict."""
    settings = {
        name: FLAGS[flag_name(name, knob)].value
        for name, knob in _flags_of(spec_class).items()
        if flag_name(name, knob) in FLAGS
    }
    return {name: value for name, value in settings.items() if value is not None}


def check_effect(spec):
    """Raises ValueError for a flag that was given and changes nothing in a run of this spec."""
    settings, all_knobs = dataclasses.asdict(spec), knobs(spec)
    for name, value in given(type(spec)).items():
        if not has_effect(all_knobs[name], settings):
            flag = f"--{flag_name(name, all_knobs[name])}"
            raise ValueError(
                f"Expected {all_knobs[name].only_if.needs} with {flag}, got {flag}={value} where "
                "it has no effect. Leave it out."
            )


def flag_name(name, knob):
    """Returns the name of the flag of a field with this knob."""
    return name if knob.flag is True else knob.flag


def _flags_of(spec_class):
    return {name: knob for name, knob in knobs(spec_class).items() if knob.flag}


def _define(name, default, knob, kind, text):
    # Choices that can become more are the spec's to check.
    if kind is str and isinstance(knob.choices, (tuple, list)):
        flags.DEFINE_enum(name, default, choices_of(knob), text)
    else:
        define = {str: flags.DEFINE_string, int: flags.DEFINE_integer, float: flags.DEFINE_float}
        define[kind](name, default, text)


def _one_of(first, second, words, is_required):
    flags.register_multi_flags_validator(
        [first, second],
        lambda values: is_required <= sum(v is not None for v in values.values()) <= 1,
        message=f"Expected {words} one of --{first} and --{second}.",
    )
