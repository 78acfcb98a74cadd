"""What a probe found."""

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Finding:
    """One reason why clipping does not bound what one example changes.

    Attributes:
        check: "layers", "losses", "shape", "values", "gradient", "removal" or "state".
        where: Name of the layer, variable or function.
        message: What was expected, what was found and what to do about it.
    """

    check: str
    where: str
    message: str


@dataclass
class Report:
    """What a probe found, and what it could not check.

    Attributes:
        findings: List of `Finding`.
        unchecked: Sentences, each on something that was not checked.
        outputs: Structure of `tf.TensorSpec`, what the function gives; None if it did not run.
    """

    findings: list = field(default_factory=list)
    unchecked: list = field(default_factory=list)
    outputs: Any = None

    def __add__(self, more):
        """Both together; `outputs` are those of the first that has any."""
        return Report(
            self.findings + more.findings,
            self.unchecked + more.unchecked,
            more.outputs if self.outputs is None else self.outputs,
        )
