"""What the page about tensor digests shows needs the standard library alone and gives what the package gives."""

import ast
import random
import re
import sys
from pathlib import Path

import pytest

from provstore.evidence.content.statistics_line import Statistics, line
from provstore.evidence.content.tensor_digest import CHUNK_BYTES, digest_of, tensor_tree
from provstore.model.canonical import parse

PAGE = (Path(__file__).parents[2] / "docs" / "explanation" / "tensor-digest.md").read_text(encoding="utf-8")
DIGEST, CLIMB = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
ROW = re.compile(r"^\| (\w+) \(([\d, ]*)\).* \| `([0-9a-f]{16})` \|$", re.MULTILINE)


@pytest.fixture(scope="module")
def page():
    names = {}
    exec(DIGEST + CLIMB, names)
    return names


def test_the_code_of_the_page_imports_the_standard_library_only():
    nodes = [node for code in (DIGEST, CLIMB) for node in ast.walk(ast.parse(code))]
    names = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    names |= {node.module for node in nodes if isinstance(node, ast.ImportFrom)}

    assert names
    assert names <= sys.stdlib_module_names


@pytest.mark.parametrize("size", [0, 1, CHUNK_BYTES, 3 * CHUNK_BYTES + 5, 6 * CHUNK_BYTES])
def test_the_code_of_the_page_gives_the_digests_and_proofs_of_the_package(page, size):
    data = random.Random(size).randbytes(size)
    tree = tensor_tree("int8", (size,), data)

    assert page["digest"]("int8", [size], data) == tree.digest == digest_of("int8", (size,), data)
    for index, leaf in enumerate(tree.leaves):
        found = page["climbed"](leaf, index, len(tree.leaves), tree.path(index))
        assert page["whole"]("int8", [size], size, found) == tree.digest


def test_the_vectors_of_the_page_are_those_of_the_package():
    from struct import pack

    one_to_four = pack("<4f", 1, 2, 3, 4)
    data = {
        "07b9bfada2f0932b": one_to_four, "ebdf310547c65ed2": one_to_four, "9dae61b57a5b580e": b"",
        "8dd651021322d600": pack("<f", 1), "d887cd9612e620c7": pack("<3q", 0, 1, 2**53 + 1),
        "31f7ad4a3b9b4e51": bytes([1, 0, 1]), "03848a6b813a1ea5": pack("<2H", 0x3F80, 0x4000),
        "ec7b01ba47eb32dd": bytes(4 * 262_145),
    }  # fmt: skip
    rows = ROW.findall(PAGE)

    assert {begins for _, _, begins in rows} == set(data)
    for dtype, shape, begins in rows:
        sizes = [int(size) for size in shape.replace(",", " ").split()]
        assert digest_of(dtype, sizes, data[begins]).startswith(f"sha256:{begins}")


def test_the_page_lists_every_member_of_a_line():
    numbers = dict.fromkeys(("mean", "variance", "l2", "delta_l2", "delta_abs_max"), 1.0)
    filled = Statistics(1, min=1.0, max=1.0, abs_max=1.0, percentiles=(1.0,) * 7, sample_n=1, of="abs", **numbers)
    section = PAGE.partition("## Statistics")[2]

    for member in set(parse(line(filled))) - {"p05", "p25", "p50", "p75", "p95"}:
        assert f"`{member}`" in section, member
