"""How a trace is folded into a tree."""

import pytest

from provstore.cli._trace_view import LINE_LIMIT, tree_lines
from provstore.model.trace import Trace, TraceEdge, TraceNode


def node(kind, seq, rank=None, hops=None):
    where = "" if rank is None else f" on rank {rank}"
    return TraceNode(
        f"{kind}/{seq}/{rank}",
        kind,
        f"{kind} of all_reduce #{seq}{where}",
        "run",
        0,
        rank,
        "0@0-3",
        "all_reduce",
        seq,
        hops,
    )


def ladder(steps, ranks=4):
    """The ancestors of rank 2's output of the last of ``steps`` all_reduces, as FR's own demonstration has them."""
    root = node("output", steps - 1, 2)
    nodes, edges = [], [TraceEdge(root.iri, "WAS_GENERATED_BY", f"collective/{steps - 1}/None")]
    for seq in reversed(range(steps)):
        nodes.append(node("collective", seq))
        for rank in range(ranks):
            nodes.append(node("input", seq, rank))
            edges.append(TraceEdge(f"collective/{seq}/None", "USED", f"input/{seq}/{rank}"))
            if seq:
                nodes.append(node("output", seq - 1, rank))
                edges.append(TraceEdge(f"input/{seq}/{rank}", "WAS_INFLUENCED_BY", f"output/{seq - 1}/{rank}"))
                edges.append(TraceEdge(f"output/{seq - 1}/{rank}", "WAS_GENERATED_BY", f"collective/{seq - 1}/None"))
    return Trace(root.iri, "ancestors", tuple(nodes), tuple(edges), root)


def texts(trace, width=80, **options):
    return [line.text for line in tree_lines(trace, width=width, **options)]


def test_ranks_that_do_the_same_share_a_line():
    lines = texts(ladder(2))

    assert lines[:5] == [
        "output of all_reduce #1 on rank 2",
        "← collective of all_reduce #1",
        "← inputs of all_reduce #1 of 0@0-3, ranks 0-3",
        "← outputs of all_reduce #0 of 0@0-3, ranks 0-3",
        "← collective of all_reduce #0",
    ]


def test_the_counts_name_every_kind():
    assert "32 ancestors (4 collectives, 16 inputs, 12 outputs)" in texts(ladder(4))


def test_a_long_history_is_cut_to_a_screen_and_says_so():
    lines = texts(ladder(500))

    assert len(lines) <= LINE_LIMIT + 3
    assert max(map(len, lines)) <= 80
    assert "… 1,460 more lines: --verbose shows all, --format table lists them" in lines
    assert len(texts(ladder(500), verbose=True)) == 1 + 500 + 500 + 499 + 1


def test_different_things_behind_one_branch_off():
    root = node("input", 3, 1)
    one, other = node("output", 2, 1), node("dump", 0)
    edges = tuple(TraceEdge(root.iri, "WAS_INFLUENCED_BY", behind.iri) for behind in (one, other))

    lines = texts(
        Trace(
            root.iri, "descendants", (one, other), tuple(TraceEdge(e.target, e.relation, e.source) for e in edges), root
        )
    )

    assert lines[1:3] == ["├─ output of all_reduce #2 on rank 1", "└─ dump of all_reduce #0"]


def test_every_element_stands_in_the_tree_once():
    shown = "\n".join(texts(ladder(40), verbose=True, width=400))

    assert shown.count("inputs of all_reduce #7 of 0@0-3, ranks 0-3") == 1


def test_an_incomplete_trace_says_why():
    trace = Trace(
        "i",
        "ancestors",
        (),
        (),
        node("output", 1, 2),
        complete=False,
        reason="max_nodes",
        counts={"omitted_at_least": 7},
    )

    assert "not complete: cut by max_nodes, at least 7 not shown" in texts(trace)


def test_elements_whose_relationships_are_not_listed_stand_below_the_target():
    root = node("output", 3, 2)
    trace = Trace(root.iri, "ancestors", (node("collective", 3), node("input", 3, 1)), (), root, edges_omitted=True)

    assert texts(trace)[1:3] == ["├─ collective of all_reduce #3", "└─ input of all_reduce #3 on rank 1"]


@pytest.mark.parametrize("label", ["\x1b[31mred", "a\nb", "[red]x[/red]"])
def test_a_label_from_data_is_shown_literally(label):
    root = TraceNode("i", "element", label)

    first = texts(Trace("i", "ancestors", (), (), root))[0]

    assert first == label.replace("\x1b", r"\x1b").replace("\n", r"\x0a")


def test_of_many_tensors_of_a_step_the_first_names_and_the_count_are_shown():
    root = node("collective", 0)
    nodes = [
        TraceNode(f"g{rank}{name}", "gradient", name, "run", 0, rank, op="tensor.grad", step=4, name=name)
        for rank in range(2)
        for name in "edcba"
    ]
    edges = tuple(TraceEdge(root.iri, "USED", one.iri) for one in nodes)
    lines = texts(Trace(root.iri, "ancestors", tuple(nodes), edges, root))
    assert lines[1] == "← 10 gradients of step 4, ranks 0-1: a, b, c and 2 more"
