"""`python -m trainers`: which programs there are, and what each is for."""

import ast
import pathlib


def programs():
    """Returns a dict from the name of each program to the first line of its description."""
    found = {}
    for path in sorted(pathlib.Path(__file__).parent.glob("*.py")):
        source = path.read_text()
        if not path.stem.startswith("_") and '__name__ == "__main__"' in source:
            found[path.stem] = ast.get_docstring(ast.parse(source)).splitlines()[0]
    return found


def main():
    """Prints them."""
    described = programs()
    width = max(map(len, described))
    print("Programs, each with its flags: python -m trainers.<program> --help\n")
    for name, line in described.items():
        print(f"  {name:{width}}  {line}")


if __name__ == "__main__":
    main()
