"""Flags made from the fields of a spec: name, type, help and choices come from their options."""

from absl import flags

from trainers.specs.options import options, type_of

FLAGS = flags.FLAGS

# They count as flags of the program that asks for them, so that its --help lists them.
flags.disclaim_key_flags()


OF_EXPERIMENT = "the experiment's own"


def _own(name):
    return OF_EXPERIMENT


def define(spec_class, *, default=_own, only=None, leave_out=(), help=None, own=None, required=()):
    """Defines a flag for each field of a spec that is one; a flag left out is None.

    Args:
        default: Function from the name of a field to what its help says of the default, "" for
            nothing. It is not asked where the help has the default, or names a rival.
        only: Names of fields that are flags of this program; None for all.
        leave_out: Names of fields that are no flags of this program.
        help: Dict from names of fields to help that replaces their own.
        own: Dict from names of fields to defaults that the program itself has.
        required: Names of fields that must be given, or their rivals in their place.
    """
    help, own = help or {}, own or {}
    names = set(options(spec_class) if only is None else only).difference(leave_out)
    shown = {name: option for name, option in _flags_of(spec_class).items() if name in names}
    for name, option in shown.items():
        text = help.get(name, option.help)
        is_told = name in own or "default:" in text.lower() or "Or --" in text
        told = "" if is_told else default(name)
        text = f"{text.removesuffix('.')} (default: {told})." if told else text
        _define(flag_name(name, option), own.get(name), option, type_of(spec_class, name)[0], text)
    for name, option in shown.items():
        if option.instead_of in shown:
            least = int(option.instead_of in required)
            flags.register_multi_flags_validator(
                [option.instead_of, name],
                lambda given, least=least: least <= sum(v is not None for v in given.values()) <= 1,
                message=f"Expected {'exactly' if least else 'at most'} one of "
                f"--{option.instead_of} and --{name}.",
            )


def parsed(spec_class):
    """Returns the settings of a spec that were given by flags, a dict."""
    settings = {
        name: FLAGS[flag_name(name, option)].value
        for name, option in _flags_of(spec_class).items()
        if flag_name(name, option) in FLAGS
    }
    return {name: value for name, value in settings.items() if value is not None}


def check_effect(spec):
    """Raises ValueError for a flag that was given and changes nothing in a run of this spec."""
    settings = spec.settings
    for part in {type(spec), type(spec.run)}:
        for name, value in parsed(part).items():
            option = options(part)[name]
            if not option.has_effect(settings):
                flag = f"--{flag_name(name, option)}"
                raise ValueError(
                    f"Expected {option.only_if.needs} with {flag}, got {flag}={value} where "
                    "it has no effect. Leave it out."
                )


def flag_name(name, option):
    """Returns the name of the flag of a field with this option."""
    return name if option.flag is True else option.flag


def _flags_of(spec_class):
    return {name: option for name, option in options(spec_class).items() if option.flag}


def _define(name, default, option, kind, text):
    if kind is str and option.choices is not None:
        flags.DEFINE_enum(name, default, option.choices, text)
    elif option.words:
        parser = {int: flags.IntegerParser(), float: flags.FloatParser()}[kind]
        flags.DEFINE(_NumberOrWord(parser, option.words), name, default, text)
    else:
        {
            str: flags.DEFINE_string,
            int: flags.DEFINE_integer,
            float: flags.DEFINE_float,
            bool: flags.DEFINE_bool,
        }[kind](name, default, text)


class _NumberOrWord(flags.ArgumentParser):
    """Parses a number, or one of some words, which is left as it is."""

    def __init__(self, parser, words):
        self._parser, self._words = parser, words
        self.syntactic_help = f"{parser.syntactic_help}, or {' or '.join(words)}"

    def parse(self, argument):
        return argument if argument in self._words else self._parser.parse(argument)

    def flag_type(self):
        return self._parser.flag_type()
