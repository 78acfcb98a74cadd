"""Errors and warnings that concern privacy, as callers catch them."""

import subprocess
import sys


def test_both_are_at_the_top_without_tensorflow():
    code = (
        "import sys, tfdpnorm\n"
        "assert issubclass(tfdpnorm.PrivacyError, ValueError)\n"
        "assert issubclass(tfdpnorm.PrivacyWarning, UserWarning)\n"
        "print('tensorflow' in sys.modules)"
    )
    loaded = subprocess.check_output([sys.executable, "-c", code], text=True, timeout=120)
    assert loaded.strip() == "False"
