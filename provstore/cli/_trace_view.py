"""How a trace reads on a terminal: a folded tree nearest first, or a table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rich.console import Console

from provstore.cli._screen import Line
from provstore.cli._tables import grid
from provstore.cli._text import counted, folded, named_ranks, printable, ranks_text

if TYPE_CHECKING:
    from provstore.model.trace import Trace, TraceNode

LINE_LIMIT = 40
NAMES_SHOWN = 3
"""Parameters or modules that a line of several tensors of one step names."""
TABLE_LIMIT = 200

_Key = tuple[str | None, ...]


@dataclass(slots=True)
class _Branch:
    """Elements that differ only in their rank, and what lies behind them."""

    members: list[TraceNode]
    branches: list[_Branch] = field(default_factory=list)


def summary(trace: Trace, width: int) -> Iterator[Line]:
    """Yield what the answer amounts to: counts by kind, whether it is whole, and what to know about it."""
    kinds = Counter(node.kind for node in trace.nodes)
    listed = ", ".join(counted(count, kind) for kind, count in sorted(kinds.items()))
    noun = {"ancestors": "ancestor", "descendants": "descendant", "path": "step"}.get(trace.direction, "node")
    hops = max((node.hops or 0 for node in trace.nodes), default=0)
    far = f", up to {counted(hops, 'hop')} away" if hops else ""
    if trace.direction == "path" and not trace.nodes:
        amount = "no path in this direction"
    else:
        amount = f"{counted(len(trace.nodes), noun)}{f' ({listed})' if listed else ''}{far}"
    yield from (Line(line, "bold") for line in folded(amount, width, "", "  "))
    if not trace.complete:
        left = trace.counts.get("omitted_at_least") or trace.counts.get("frontier_left") or 0
        beyond = f", at least {left:,} not shown" if left else ""
        yield Line(f"not complete: cut by {trace.reason}{beyond}", "yellow")
    for note in trace.notes:
        yield from (Line(line, "dim") for line in folded(note, width))


def tree_lines(trace: Trace, *, width: int, verbose: bool = False) -> list[Line]:
    """Return a trace as a tree: each element once, behind the nearest one it leads to.

    Elements that differ only in their rank share a line. Without ``verbose`` at most 40 lines.
    """
    arrow = "→" if trace.direction == "descendants" else "←"
    if trace.direction == "path":
        lines = [Line(f"{f'{arrow} ' if at else ''}{_label([node])}") for at, node in enumerate(trace.nodes)]
    else:
        lines = [Line(_label([trace.root]), "bold"), *_branch_lines(_folded(trace, with_actions=verbose), arrow)]
    if not verbose and len(lines) > LINE_LIMIT + 1:
        more = counted(len(lines) - LINE_LIMIT, "more line")
        lines = [*lines[:LINE_LIMIT], Line(f"… {more}: --verbose shows all, --format table lists them", "dim")]
    actions = 0 if verbose or trace.direction == "path" else sum(map(_is_action, _left_out(trace)))
    if actions:
        said = f"{counted(actions, 'recorded action')} about these not shown: --verbose shows them, --json lists them"
        lines.append(Line(said, "dim"))
    return [*_fit(lines, width), *summary(trace, width)]


def table(console: Console, trace: Trace, *, verbose: bool = False) -> None:
    """Print a trace as a table, nearest first; without ``verbose`` at most 200 rows."""
    shown = trace.nodes if verbose else trace.nodes[:TABLE_LIMIT]
    rows = [("" if node.hops is None else node.hops, node.label, _place(node)) for node in shown]
    grid(console, ("hops", "what", "source"), rows)
    if len(shown) < len(trace.nodes):
        console.print(f"… {len(trace.nodes) - len(shown):,} more rows: --verbose or --json lists all", style="dim")
    for line in summary(trace, console.width):
        console.print(line.text, style=line.style or None)


def _is_action(node: TraceNode) -> bool:
    return node.kind == "action"


def _left_out(trace: Trace) -> Sequence[TraceNode]:
    """Return among which nodes the actions are left out: what is recorded of something is no part of its flow."""
    return () if _is_action(trace.root) else trace.nodes


def _folded(trace: Trace, *, with_actions: bool) -> _Branch:
    hidden = set() if with_actions else {node.iri for node in _left_out(trace) if _is_action(node)}
    shown = [node for node in trace.nodes if node.iri not in hidden]
    nodes = {node.iri: node for node in (trace.root, *shown)}
    onward = _onward(trace)
    root = _Branch([trace.root])
    seen = {trace.root.iri}
    level = [root]
    if shown and not seen.union(nodes).intersection(onward.get(trace.root.iri, ())):
        # Where nothing leads on from the target itself, the trace begins at another element, its first.
        seen.add(shown[0].iri)
        level = [_Branch([shown[0]])]
        root.branches = list(level)
    while level:
        following: list[_Branch] = []
        for branch in level:
            reached = (other for member in branch.members for other in onward.get(member.iri, ()))
            fresh = [nodes[iri] for iri in dict.fromkeys(reached) if iri in nodes and iri not in seen]
            seen.update(node.iri for node in fresh)
            branch.branches = list(_grouped(fresh))
            following += branch.branches
        level = following
    root.branches += _grouped(node for node in shown if node.iri not in seen)
    return root


def _onward(trace: Trace) -> Mapping[str, Sequence[str]]:
    onward: dict[str, list[str]] = {}
    down = trace.direction == "descendants"
    for edge in trace.edges:
        here, there = (edge.target, edge.source) if down else (edge.source, edge.target)
        onward.setdefault(here, []).append(there)
        if edge.relation == "SAME_AS":
            onward.setdefault(there, []).append(here)
    return onward


def _grouped(nodes: Iterable[TraceNode]) -> Iterator[_Branch]:
    groups: dict[_Key, list[TraceNode]] = {}
    for node in nodes:
        alone = node.iri if node.rank is None or (node.seq is None and node.name is None) else None
        key = (node.kind, node.run, str(node.attempt), node.group, node.op, str(node.seq), str(node.step), alone)
        groups.setdefault(key, []).append(node)
    for members in groups.values():
        yield _Branch(members)


def _branch_lines(root: _Branch, arrow: str) -> Iterator[Line]:
    """Yield the lines below the root; an only child stands below its parent without a further indent."""
    pending = list(reversed(list(_marked(root.branches, "", arrow))))
    while pending:
        branch, head, indent = pending.pop()
        yield Line(f"{head}{_label(branch.members)}")
        pending += reversed(list(_marked(branch.branches, indent, arrow)))


def _marked(branches: Sequence[_Branch], indent: str, arrow: str) -> Iterator[tuple[_Branch, str, str]]:
    """Yield each branch with the head of its line and the indent of what lies behind it."""
    if len(branches) == 1:
        yield branches[0], f"{indent}{arrow} ", indent
        return
    for at, branch in enumerate(branches):
        last = at == len(branches) - 1
        yield branch, f"{indent}{'└─ ' if last else '├─ '}", f"{indent}{'   ' if last else '│  '}"


def _label(members: Sequence[TraceNode]) -> str:
    first = members[0]
    if len(members) == 1:
        text = first.label
    elif first.name is not None:
        text = _tensors_label(members)
    else:
        ranks = ranks_text(node.rank for node in members if node.rank is not None)
        group = f" of {first.group_name or first.group}" if first.group else ""
        text = f"{first.kind}s of {first.op or 'call'} #{first.seq}{group}, ranks {ranks}"
    source = f"  ({_place(first)})" if first.source and len({node.source for node in members}) == 1 else ""
    return printable(text + source)


def _tensors_label(members: Sequence[TraceNode]) -> str:
    """Return several tensors of one step in words: how many, of which ranks, and the first names."""
    names = sorted({str(node.name) for node in members})
    more = f" and {len(names) - NAMES_SHOWN} more" if len(names) > NAMES_SHOWN else ""
    step = "a step that was not recorded" if members[0].step is None else f"step {members[0].step}"
    who = named_ranks([node.rank for node in members if node.rank is not None])
    return f"{counted(len(members), members[0].kind)} of {step}, {who}: {', '.join(names[:NAMES_SHOWN])}{more}"


def _place(node: TraceNode) -> str:
    """Return the file's name, line and function, without the folders above the file."""
    return (node.source or "").rpartition("/")[2]


def _fit(lines: Iterable[Line], width: int) -> Iterator[Line]:
    for line in lines:
        yield line if len(line.text) <= width else Line(line.text[: width - 1] + "…", line.style)
