"""The rows of src/tables, which this folder's programs read as they are: element types, operators and collectives."""
import os
import re

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "src", "tables")


def rows(file, begin, pattern):
    """Every row of a table, each a tuple of the pattern's groups. begin: what every row begins with."""
    with open(os.path.join(FOLDER, file)) as table:
        text = table.read()
    found = re.findall(begin + pattern, text)
    if not found or len(found) != len(re.findall(begin, text)):
        raise RuntimeError(f"src/tables/{file} has rows that perf/peers/tables.py does not understand")
    return found


def element_types():
    """(bytes of each type by name, name by nccl-tests' other name)."""
    found = rows("element_types.h", r"\{TUTTI_\w+,",
                 r'\s*"(\w+)",\s*(?:nullptr|"(\w+)"),\s*ElementKind::\w+,\s*(\d+),\s*\d+\}')
    return {name: int(size) for name, _, size in found}, {alias: name for name, alias, _ in found if alias}


def operators():
    """The operators' names."""
    return tuple(rows("operators.h", r'\{TUTTI_\w+,(?=\s*")', r'\s*"(\w+)",\s*operators_detail::\w+\}'))


def collectives():
    """Name: (whether the larger of a rank's two buffers has a block for each rank, whether elements are folded, bus factor)."""
    found = rows("collectives.h", r'\{(?="\w+",)',
                 r'"(\w+)",\s*(?:nullptr|"\w+"),\s*(?:nullptr|"\w+"),\s*[\w:]+,\s*[\w:]+,\s*BlockSource::(\w+),\s*(first|own),\s*(\w+)\}')
    return {name: (source == "each" or index == "own", source == "fold", bus) for name, source, index, bus in found}
