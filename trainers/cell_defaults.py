"""The defaults that --help shows: those of the cell that the other flags choose."""

import contextlib
import io
import sys

from absl import flags

from trainers import spec_flags
from trainers.specs.options import options

FLAGS = flags.FLAGS

_HELP = ("help", "helpfull", "helpshort", "?", "h")
_USUAL_EPSILON = "3"


def show_if_help_is_asked(make_spec, usual):
    """If the command line asks for help, puts the defaults of its cell into the flags' help.

    `make_spec` returns the spec of the parsed flags; `usual` has values for flags that have to be
    given, besides that of epsilon, for the help of those who have not given them yet. Where the
    other flags are wrong, the help stays as it is: what is wrong is said by the program.
    """
    others = [argument for argument in sys.argv if argument.lstrip("-") not in _HELP]
    if len(others) == len(sys.argv):
        return
    with contextlib.suppress(flags.Error, ValueError, KeyError, SystemExit):
        with contextlib.redirect_stderr(io.StringIO()):
            _show(make_spec, others, {"epsilon": _USUAL_EPSILON, **usual})
    FLAGS.unparse_flags()


def _show(make_spec, argv, usual):
    given = {argument.lstrip("-").split("=")[0] for argument in argv[1:]}
    if "noise_multiplier" in given:
        given.add("epsilon")
    lacking = [name for name in usual if name in FLAGS and name not in given]
    FLAGS([*argv, *(f"--{name}={usual[name]}" for name in lacking)])
    spec = make_spec()
    for part in {type(spec), type(spec.run)}:
        for name, option in options(part).items():
            flag = spec_flags.flag_name(name, option)
            if option.flag and flag in FLAGS and name in spec.settings and flag not in given:
                told = f"with these flags: {_shown(spec.settings[name])}"
                FLAGS[flag].help = FLAGS[flag].help.replace(spec_flags.OF_EXPERIMENT, told)


def _shown(value):
    if value is None or value == "":
        return "none"
    return f"{value:g}" if isinstance(value, float) else f"{value}"
