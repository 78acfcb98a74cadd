"""The figures of the fuzzed targets: how many inputs were tried, and what became of them."""

import collections

import pytest

from tests.fuzz import targets

_PROPERTY = "fuzzed"


@pytest.fixture(autouse=True)
def _figures(record_property):
    """Hands the counts to the report, which reaches this process from any worker."""
    targets.TRIED.clear()
    yield
    for target, outcomes in targets.TRIED.items():
        record_property(_PROPERTY, [target, dict(outcomes)])


def pytest_terminal_summary(terminalreporter):
    """Prints the figures of the profile "fuzz"."""
    if targets.examples_asked() is None:
        return
    found = collections.defaultdict(collections.Counter)
    for reports in terminalreporter.stats.values():
        for report in reports:
            if getattr(report, "when", None) == "teardown":
                for name, value in report.user_properties:
                    if name == _PROPERTY:
                        found[value[0]].update(value[1])
    terminalreporter.section("inputs tried")
    for target, outcomes in sorted(found.items()):
        listed = ", ".join(f"{count} {outcome}" for outcome, count in sorted(outcomes.items()))
        terminalreporter.write_line(f"{outcomes.total():8d}  {target} ({listed})")
    total = sum(outcomes.total() for outcomes in found.values())
    terminalreporter.write_line(f"{total:8d}  in all")
