"""Random damage to bytes and to JSON, as strategies."""

import json

from hypothesis import strategies as st

# What a field may hold instead.
JSON_VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 40),
    st.sampled_from([10**12, 2**63, -(2**70), 10**400, 1e308, -0.0, 5e-324]),
    st.sampled_from([float("inf"), float("nan")]),
    st.floats(allow_nan=False),
    st.text(max_size=8),
    st.sampled_from(["inf", "nan", "", "../x", "\x00", "rdp", "poisson", "\ud800"]),
    st.lists(st.integers(0, 9), max_size=3),
    st.dictionaries(st.text(max_size=3), st.integers(0, 9), max_size=2),
)


@st.composite
def damaged_bytes(draw, data, most=3):
    """`data` after one to `most` accidents; it may come out as it was."""
    for _ in range(draw(st.integers(1, most))):
        at = draw(st.integers(0, len(data)))
        end = min(len(data), at + draw(st.sampled_from([1, 1, 1, 2, 8, 40, 300, len(data)])))
        kind = draw(
            st.sampled_from(["flip", "set", "cut", "truncate", "insert", "double", "zeros", "move"])
        )
        if kind == "flip" and at < len(data):
            flipped = data[at] ^ 1 << draw(st.integers(0, 7))
            data = data[:at] + bytes([flipped]) + data[at + 1 :]
        elif kind == "set" and at < len(data):
            byte = draw(st.sampled_from([0, 10, 13, 32, 34, 48, 57, 92, 125, 127, 255]))
            data = data[:at] + bytes([byte]) + data[at + 1 :]
        elif kind == "cut":
            data = data[:at] + data[end:]
        elif kind == "truncate":
            data = data[:at]
        elif kind == "insert":
            data = data[:at] + draw(st.binary(max_size=12)) + data[at:]
        elif kind == "double":
            data = data[:end] + data[at:end] + data[end:]
        elif kind == "zeros":
            data = data[:at] + b"\0" * (end - at) + data[end:]
        elif kind == "move":
            part, rest = data[at:end], data[:at] + data[end:]
            to = draw(st.integers(0, len(rest)))
            data = rest[:to] + part + rest[to:]
    return data


@st.composite
def damaged_lines(draw, data, most=2):
    """`data` with whole lines lost, doubled, exchanged or put elsewhere."""
    lines = data.splitlines(keepends=True)
    for _ in range(draw(st.integers(1, most))):
        if not lines:
            break
        n, m = (draw(st.integers(0, len(lines) - 1)) for _ in range(2))
        kind = draw(st.sampled_from(["lose", "double", "exchange", "end", "blank", "move"]))
        if kind == "lose":
            del lines[n]
        elif kind == "double":
            lines.insert(m, lines[n])
        elif kind == "exchange":
            lines[n], lines[m] = lines[m], lines[n]
        elif kind == "end":
            lines = lines[:n]
        elif kind == "blank":
            lines.insert(n, draw(st.sampled_from([b"\n", b" \n", b"\r\n", b"\0\n"])))
        else:
            lines.insert(m, lines.pop(n))
    return b"".join(lines)


@st.composite
def damaged_json(draw, text, most=2):
    """JSON text whose tree was changed in one to `most` places, and keys perhaps doubled."""
    tree = json.loads(text)
    for _ in range(draw(st.integers(1, most))):
        holders = list(_holders(tree))
        if not holders:
            break
        holder = draw(st.sampled_from(holders))
        keys = list(holder) if isinstance(holder, dict) else list(range(len(holder)))
        key = draw(st.sampled_from(keys))
        kind = draw(st.sampled_from(["value", "value", "lose", "rename", "swap", "wrap"]))
        if kind == "value":
            holder[key] = draw(JSON_VALUES)
        elif kind == "lose":
            del holder[key]
        elif kind == "rename" and isinstance(holder, dict):
            holder[draw(st.sampled_from(["", "x", str(key) + "s", *map(str, keys)]))] = holder.pop(
                key
            )
        elif kind == "swap":
            other = draw(st.sampled_from(keys))
            holder[key], holder[other] = holder[other], holder[key]
        elif kind == "wrap":
            holder[key] = [holder[key]]
    text = json.dumps(tree)
    if isinstance(tree, dict) and tree and draw(st.integers(0, 4)) == 0:
        key = draw(st.sampled_from(sorted(tree)))
        text = f"{text[:-1]}, {json.dumps(key)}: {json.dumps(draw(JSON_VALUES))}}}"
    return text.encode("utf-8", "surrogatepass")


def damaged_text(data):
    """Any damage to a JSON file."""
    return st.one_of(damaged_bytes(data), damaged_lines(data), damaged_json(data))


def _holders(tree):
    """All dicts and lists of a tree that hold something."""
    if isinstance(tree, (dict, list)) and tree:
        yield tree
        for part in tree.values() if isinstance(tree, dict) else tree:
            yield from _holders(part)
