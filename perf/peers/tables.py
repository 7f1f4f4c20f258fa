"""The rows of src/tables, which this folder's programs read as they are: element types, operators and collectives."""
import os
import re

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "src", "tables")


def rows(file, pattern):
    """Every match of the pattern in a table, each a tuple of its groups."""
    with open(os.path.join(FOLDER, file)) as table:
        found = re.findall(pattern, table.read())
    if not found:
        raise RuntimeError(f"src/tables/{file} has no row that perf/peers/tables.py understands")
    return found


def element_types():
    """(bytes of each supported type by name, name by nccl-tests' other name)."""
    found = rows("element_types.h", r'\{TUTTI_\w+, "(\w+)", (?:nullptr|"(\w+)"), ElementKind::\w+, (\d+), \d+, true\}')
    return {name: int(size) for name, _, size in found}, {alias: name for name, alias, _ in found if alias}


def operators():
    """The names of the supported operators."""
    return tuple(rows("operators.h", r'\{TUTTI_\w+, "(\w+)", true\}'))


def collectives():
    """Name: (whether the larger of a rank's two buffers has a block for each rank, whether elements are folded, bus factor)."""
    found = rows("collectives.h",
                 r'"(\w+)", (?:nullptr|"\w+"),\s+[\w:]+,\s+[\w:]+,\s+BlockSource::(\w+),\s+(first|own),\s+(\w+)\}')
    return {name: (source == "each" or index == "own", source == "fold", bus) for name, source, index, bus in found}
