"""Mutants of the verifier: what the walk, its verdicts and its rules may not claim."""

from tests.mutants.mutant import fault, tests_in

_FOLDER = "tfdpnorm/independence/verification"
_WALK = ("tests/independence/verification/test_walk.py",)
_RULES = tests_in(
    "tests/independence/verification/test_rules.py",
    "test_the_verdict_is_the_expected_one_and_cannot_be_refuted",
)
_BY_HAND = ("tests/independence/verification/test_rules_by_hand.py",)
_BOUNDS = ("tests/independence/verification/test_bounds.py",)
_CONSTANTS = ("tests/independence/verification/test_constants.py",)
_ELEMENTWISE = ("tests/independence/verification/test_elementwise_ops.py",)
_PLAIN = ("tests/independence/verification/test_plain_graphs.py",)
_CERTIFICATE = ("tests/independence/verification/test_certificate.py",)
_INTO_OTHERS = "One example's values reach the gradients of others, and this is called verified."
_STATE = "A variable that is released without noise gets what an example holds."


def _walk(name, old, new, harm=_INTO_OTHERS):
    return fault(name, f"{_FOLDER}/walk.py", old, new, harm, _WALK)


def _verdict(name, old, new):
    return fault(name, f"{_FOLDER}/verdicts.py", old, new, _INTO_OTHERS, _WALK)


def _claim(name, old, new, harm=_INTO_OTHERS):
    return fault(name, f"{_FOLDER}/claims.py", old, new, harm, _WALK)


def _rule(name, file, old, new, tests=_RULES):
    return fault(name, f"{_FOLDER}/rules/{file}.py", old, new, _INTO_OTHERS, tests)


MUTANTS = (
    # The walk
    _walk(
        "rules-that-fail-are-free",
        '            return node.mixed(f"its rule failed: {type(error).__name__}: {error}")',
        "            return FREE",
    ),
    _walk(
        "operations-without-a-rule-are-free",
        '            return node.mixed("no rule is known for this operation")',
        "            return FREE",
    ),
    _walk(
        "mixed-inputs-are-forgotten",
        "            return culprit\n",
        "            return FREE\n",
    ),
    _walk(
        "placeholders-are-free",
        '            return node.mixed("is no input of the graph")',
        "            return FREE",
    ),
    _walk(
        "all-free-is-asked-of-one-input",
        "        free = node.all_free(range(len(node.verdicts)))\n",
        "        free = node.all_free(range(min(1, len(node.verdicts))))\n",
    ),
    _walk(
        "state-of-free-inputs-is-free",
        "        if free and not hidden:\n",
        "        if free:\n",
        _STATE,
    ),
    _walk(
        "functions-are-not-hidden",
        "        hidden = op.is_stateful or op.functions\n",
        "        hidden = op.is_stateful\n",
        _STATE,
    ),
    _walk(
        "unknown-state-is-no-fault",
        '                node.fault("gets values that depend on examples, and may keep them")\n',
        "                pass\n",
        _STATE,
    ),
    _walk(
        "state-off-the-way-is-not-visited",
        "            if op.is_stateful or op.functions:\n",
        "            if op.functions:\n",
        _STATE,
    ),
    _walk(
        "calls-off-the-way-are-not-visited",
        "            if op.is_stateful or op.functions:\n",
        "            if op.is_stateful:\n",
        _STATE,
    ),
    _walk(
        "unknown-functions-are-no-fault",
        '            node.fault("calls a function whose graph is not known")\n',
        "",
        _STATE,
    ),
    _walk(
        "control-flow-of-version-1-is-free",
        '                mixed = Node(op, (), self).mixed("is control flow of TensorFlow 1")\n',
        "                mixed = FREE\n",
    ),
    _walk(
        "calls-are-remembered-without-verdicts",
        "        key = id(graph), tuple(verdicts), tuple(_key(c) for c in constants)\n",
        "        key = id(graph), tuple(_key(c) for c in constants)\n",
    ),
    _walk(
        "calls-are-remembered-without-constants",
        "        key = id(graph), tuple(verdicts), tuple(_key(c) for c in constants)\n",
        "        key = id(graph), tuple(verdicts)\n",
    ),
    _walk(
        "faults-in-functions-are-lost",
        "            inner = Walk(self.examples, self.faults, path, known, self._memory)\n",
        "            inner = Walk(self.examples, [], path, known, self._memory)\n",
        _STATE,
    ),
    _walk(
        "joined-verdicts-fit-any-shape",
        "one == other or fits(found, op.outputs[index].shape, self.examples)",
        "True",
    ),
    _walk(
        "writes-in-nested-calls-are-not-seen",
        "                    found += self.writes(inner, inner.functions)\n",
        "                    pass\n",
        _STATE,
    ),
    _walk(
        "writes-are-not-seen",
        "                    found.append(inner.type)\n",
        "                    pass\n",
        _STATE,
    ),
    _walk(
        "assignments-are-harmless",
        '    "Assert",\n',
        '    "AssignAddVariableOp",\n    "Assert",\n',
        _STATE,
    ),
    _walk(
        "empty-lists-are-free",
        "0 in shape and tensor.holds_values:",
        "0 in shape:",
    ),
    _walk(
        "lists-of-numbers-are-rows",
        "        if isinstance(verdict, Rows) and not tensor.holds_values:\n",
        "        if False:\n",
    ),
    _walk(
        "numbers-are-lists",
        "        if isinstance(verdict, ListOf) and tensor.holds_values:\n",
        "        if False:\n",
    ),
    _walk(
        "rows-of-another-size",
        "            if size != verdict.size(node.examples) and (",
        "            if False and (",
    ),
    _walk(
        "one-row-that-was-broadcast",
        "(size is not None or node.examples == 1)",
        "size is not None",
    ),
    _walk(
        "inputs-are-not-checked",
        "self._checked(node, tensor, verdict)\n        for op",
        "verdict\n        for op",
    ),
    _walk(
        "mixed-numbers-are-decided",
        "        if isinstance(verdict, Mixed) and self.bounds.decide(tensor):\n",
        "        if isinstance(verdict, Mixed) and self.bounds.of(tensor):\n",
    ),
    # Verdicts
    _verdict(
        "join-forgets-what-is-mixed",
        "        if isinstance(verdict, Mixed):\n            return verdict\n",
        "        if isinstance(verdict, Mixed):\n            return FREE\n",
    ),
    _verdict(
        "free-joined-with-rows-is-free",
        "    if one == FREE:\n        return other\n",
        "    if FREE in (one, other):\n        return FREE\n",
    ),
    _verdict(
        "other-rows-are-joined",
        "    return one if other in (FREE, one) else None\n",
        "    return one\n",
    ),
    _verdict(
        "rows-are-joined-with-lists",
        "        element = None if isinstance(one, Rows) or isinstance(other, Rows) else join(",
        "        element = join(",
    ),
    _verdict(
        "rows-fit-any-size",
        "    return shape[verdict.axis] == verdict.size(examples)\n",
        "    return True\n",
    ),
    _verdict(
        "sizes-without-blocks",
        "        return self.blocks * self.period(examples)\n",
        "        return self.period(examples)\n",
    ),
    # Claims
    _claim(
        "any-axis-is-claimed",
        "        return self.verdict == Rows(0, self.per_example)\n",
        "        return isinstance(self.verdict, Rows)\n",
    ),
    _claim(
        "any-number-of-rows-is-claimed",
        "        return self.verdict == Rows(0, self.per_example)\n",
        "        return isinstance(self.verdict, Rows) and self.verdict.axis == 0\n",
    ),
    _claim(
        "free-rows-need-no-gradient",
        "            claims[i] = replace(claims[i], may_be_free=False)\n",
        "            pass\n",
        "A layer that reads no example trains on a gradient that is no example's.",
    ),
    # Inputs of an operation
    fault(
        "inputs-of-rows-need-no-free-others",
        f"{_FOLDER}/registry.py",
        " and self.all_free(others) else None",
        " else None",
        _INTO_OTHERS,
        _WALK,
    ),
    # Rules
    _rule(
        "branches-of-examples",
        "control_flow",
        "        return _culprit(node, node.verdicts[0], why)\n",
        "        return FREE\n",
        (*_WALK, *_RULES),
    ),
    _rule(
        "branches-of-examples-may-write",
        "control_flow",
        '        _no_state(node, names, "whether it is run")\n',
        "",
        _WALK,
    ),
    _rule(
        "first-branch-alone",
        "control_flow",
        "    for other in found[1:]:\n",
        "    for other in found[2:]:\n",
        (*_WALK, *_RULES),
    ),
    _rule(
        "one-turn-of-a-loop",
        "control_flow",
        "        if joined == verdicts:\n            break\n        verdicts = joined\n",
        "        verdicts = joined\n        break\n",
        _WALK,
    ),
    _rule(
        "turns-of-examples",
        "control_flow",
        "    if goes_on != FREE:\n",
        "    if False:\n",
        _WALK,
    ),
    _rule(
        "broadcasts-of-several-axes",
        "elementwise",
        "        if found not in (None, verdict):\n",
        "        if False:\n",
    ),
    _rule(
        "broadcasts-aligned-from-the-left",
        "elementwise",
        "verdict.at(verdict.axis + max(ranks) - rank)",
        "verdict.at(verdict.axis)",
    ),
    _rule(
        "filters-of-examples",
        "images",
        "    if not node.all_free(others):\n",
        "    if False:\n",
        _BY_HAND,
    ),
    _rule(
        "filters-summed-over-examples",
        "images",
        '    return node.meeting("sums over all examples")\n',
        "    return node.rows[0][1]\n",
        _BY_HAND,
    ),
    _rule(
        "lists-of-the-examples",
        "lists",
        '    if rows is None or rows.axis == 0:\n        return node.mixed("makes a list of the',
        '    if rows is None:\n        return node.mixed("makes a list of the',
        _BY_HAND,
    ),
    _rule(
        "places-in-lists-by-examples",
        "lists",
        "    if element is None or not node.all_free([1, 2]):\n",
        "    if element is None:\n",
        _BY_HAND,
    ),
    _rule(
        "stacked-lists-keep-their-axis",
        "lists",
        "_given(node, element.at(element.axis + 1), 0)",
        "_given(node, element, 0)",
    ),
    _rule(
        "rows-gathered-by-examples",
        "lookups",
        "!= 1:\n        return node.mixed(_BY_EXAMPLES)\n    return found.pop()\n",
        "< 1:\n        return node.mixed(_BY_EXAMPLES)\n    return found.pop()\n",
        _BY_HAND,
    ),
    _rule(
        "examples-gathered-by-index",
        "lookups",
        "        return node.mixed(_OF_EXAMPLES) if batch_axes else _taken(node, axis)\n",
        "        return params\n",
    ),
    _rule(
        "entropy-along-the-examples",
        "images",
        '    if rows.axis:\n        return node.meeting("works along the axis',
        '    if False:\n        return node.meeting("works along the axis',
        _BY_HAND,
    ),
    _rule(
        "moments-of-the-batch",
        "normalization",
        'None:\n        return node.meeting("takes the moments of all examples")\n',
        "None:\n        return [rows] * count\n",
    ),
    _rule(
        "indices-of-other-examples",
        "own_entries",
        "        return verdict if _belong(found, verdict, node.examples) else None\n",
        "        return verdict\n",
    ),
    _rule(
        "products-of-all-examples",
        "products",
        "        if label not in (None, own):\n",
        "        if False:\n",
    ),
    _rule(
        "diagonals-of-examples",
        "products",
        "        if labels.count(own) > 1:\n",
        "        if False:\n",
    ),
    _rule(
        "reductions-over-examples",
        "reductions",
        "    if rows.axis in axes:\n",
        '    if rows.axis in axes and node.op.type != "Softmax":\n',
    ),
    _rule(
        "solving-for-several-examples",
        "reductions",
        "rank != node.rank(1) or any(v.axis >= rank - 2 for _, v in node.rows):",
        "rank != node.rank(1):",
        _BY_HAND,
    ),
    _rule(
        "reshaped-in-another-order",
        "shapes",
        "        if distance % inner:\n            continue\n",
        "",
    ),
    _rule(
        "transposed-to-another-axis",
        "shapes",
        "rows.at([int(a) % len(axes) for a in axes].index(rows.axis))",
        "rows.at(int(axes[rows.axis]))",
    ),
    _rule(
        "parts-of-the-batch",
        "slices",
        "    if begin % period or size % period or size == 0:\n",
        "    if size % period or size == 0:\n",
        _BY_HAND,
    ),
    _rule(
        "strides-over-the-batch",
        "slices",
        "    if rows.axis not in kept or stride != 1:\n",
        "    if rows.axis not in kept:\n",
    ),
    _rule(
        "batches-joined-with-other-rows",
        "slices",
        "        if len(per_example) > 1 or size is None or size % period:\n",
        "        if size is None or size % period:\n",
        _BY_HAND,
    ),
    _rule(
        "written-rows-are-no-fault",
        "state",
        '        node.fault(f"a variable gets a value that depends on examples ({source})")\n',
        "        pass\n",
        _WALK,
    ),
    # Constants and bounds
    fault(
        "constants-of-another-shape",
        f"{_FOLDER}/constants.py",
        '        return function(x, axis=axes, keepdims=op.attributes["keep_dims"])',
        "        return function(x, axis=axes, keepdims=True)",
        _INTO_OTHERS,
        _CONSTANTS,
    ),
    fault(
        "remainders-of-negative-numbers",
        f"{_FOLDER}/bounds.py",
        "    unchanged = (one[0] >= 0) & (one[1] < other[0])\n",
        "    unchanged = one[1] < other[0]\n",
        _INTO_OTHERS,
        _BOUNDS,
    ),
    fault(
        "overflows-stay-within-bounds",
        f"{_FOLDER}/bounds.py",
        "            if (low < widest[0]).any() or (high > widest[1]).any():\n",
        "            if False:\n",
        _INTO_OTHERS,
        _BOUNDS,
    ),
    # From TensorFlow's graphs
    fault(
        "shapes-of-calls-are-not-known",
        "tfdpnorm/keras_compat/plain_graphs.py",
        "        shapes = None if first is None else [x.shape for x in op.inputs[first:]]\n",
        "        shapes = None\n",
        "Models that were verified are rejected.",
        _PLAIN,
    ),
    fault(
        "one-graph-for-all-shapes-of-calls",
        "tfdpnorm/keras_compat/plain_graphs.py",
        "            key = id(graph), None if shapes is None else tuple(map(str, shapes))\n",
        "            key = id(graph)\n",
        _INTO_OTHERS,
        _PLAIN,
    ),
    fault(
        "state-is-not-told",
        "tfdpnorm/keras_compat/plain_graphs.py",
        "            stateful,\n        )",
        "            False,\n        )",
        _STATE,
        _PLAIN,
    ),
    # Certificates
    fault(
        "certificates-hold-all-constants",
        f"{_FOLDER}/certificate.py",
        'op.attributes.get("value") if id(op) in self._read else None',
        'op.attributes.get("value")',
        "Labels that a graph holds as a constant are published with the certificate.",
        _CERTIFICATE,
    ),
    fault(
        "certificates-are-not-compared-with-the-ledger",
        f"{_FOLDER}/command.py",
        "    if sha256 not in (None, found):\n",
        "    if False:\n",
        "A certificate of another graph is taken for that of the run.",
        _CERTIFICATE,
    ),
    fault(
        "certificates-are-not-verified-again",
        f"{_FOLDER}/command.py",
        "    if not proof.holds:\n",
        "    if False:\n",
        "The program calls any graph verified.",
        _CERTIFICATE,
    ),
    fault(
        "functions-with-the-outputs-of-their-gradients",
        "tfdpnorm/keras_compat/functions.py",
        "if graph is None or _has_grown(function, graph):",
        "if graph is None:",
        "Each ResNet-9 is trained by the slow engine.",
        tests_in(
            "tests/independence/verification/test_plain_graphs.py",
            "test_a_function_that_was_differentiated_is_the_one_that_runs",
        ),
    ),
)
