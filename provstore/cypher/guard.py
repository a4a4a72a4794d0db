"""The guard of ad-hoc Cypher: a tokeniser, and an allow-list of words, functions and bounded paths."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from provstore.errors import InputError

MAX_TEXT_BYTES = 64 * 1024
MAX_HOPS = 50


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


CLAUSES = _words("MATCH OPTIONAL WHERE WITH UNWIND RETURN ORDER BY SKIP LIMIT UNION")
FIRST_WORDS = _words("MATCH OPTIONAL UNWIND WITH RETURN")
FUNCTIONS = _words(
    """
    count collect sum avg min max stdev size length coalesce head last tail range keys labels type properties nodes
    relationships startnode endnode tointeger tofloat tostring toboolean toupper tolower trim ltrim rtrim replace
    substring left right split reverse abs ceil floor round sign sqrt exp log log10 exists all any none single reduce
    isempty char_length shortestpath date datetime duration
    """
)
VERBS = _words(
    """
    CREATE INSERT MERGE SET DELETE DETACH NODETACH REMOVE DROP ALTER RENAME USE FOREACH CALL YIELD LOAD CSV COPY EXPORT
    IMPORT INSTALL ATTACH PROFILE EXPLAIN CYPHER SHOW TERMINATE GRANT DENY REVOKE START STOP ENABLE DRYRUN PERIODIC
    COMMIT TRANSACTIONS APOC DBMS GDS FORMAT FOR VALID_TIME SHORTEST FINISH FILTER LET NEXT HAVING INTERSECT EXCEPT ON
    CONSTRAINT INDEX DATABASE
    """
)
"""Words that are refused wherever they are not a label or a property."""

_OPENERS = CLAUSES | _words("AND OR XOR NOT IN WHEN THEN ELSE AS DISTINCT CASE CONTAINS")
"""Words that may stand before a parenthesis without being a function."""

_TOKEN = re.compile(
    r"""(?P<space>\s+)|(?P<comment>//[^\n]*)|(?P<string>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")|(?P<quoted>`(?:[^`]|``)*`)"""
    r"""|(?P<parameter>\$[A-Za-z_][A-Za-z0-9_]*)|(?P<number>0x[0-9A-Fa-f]+|\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)"""
    r"""|(?P<word>[A-Za-z_][A-Za-z0-9_]*)|(?P<sign>\.\.|[][(){}<>=+\-*/%^|&!:,.])""",
    re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Token:
    """One token of Cypher; spaces and comments are left out."""

    kind: str
    text: str
    at: int


def tokens(text: str) -> Iterator[Token]:
    """Yield the tokens of ``text``.

    Raises:
        InputError: A character starts no token, or a string is not closed.
    """
    at = 0
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None:
            raise _refusal(text, at, text[at], "this character is not allowed here")
        kind = found.lastgroup or ""
        if kind in ("comment", "quoted") and not found.group().isascii():
            raise _refusal(text, at, found.group()[:20], "characters outside ASCII are allowed in strings only")
        if kind not in ("space", "comment"):
            yield Token(kind, found.group(), at)
        at = found.end()


def parameters_of(text: str) -> tuple[str, ...]:
    """Return the names of the ``$parameters`` that ``text`` uses, each once, in order of appearance."""
    return tuple(dict.fromkeys(token.text[1:] for token in tokens(text) if token.kind == "parameter"))


def properties_of(text: str) -> tuple[str, ...]:
    """Return the names of properties that ``text`` reads, each once; keys of maps that it makes itself are none."""
    found = list(tokens(text))
    texts = ["", "", *(token.text for token in found), ""]
    read, made, is_in_pattern = [], set(), [False]
    for at, token in enumerate(found, start=2):
        before, after = texts[at - 1], texts[at + 1]
        if token.text in ("{", "[", "("):
            # Behind a label are properties, as in (a:Action {run: …}).
            is_in_pattern.append(token.text == "{" and texts[at - 2] == ":")
        elif token.text in ("}", "]", ")"):
            if len(is_in_pattern) > 1:
                is_in_pattern.pop()
        elif token.kind in ("word", "quoted"):
            name = token.text.strip("`")
            is_key = before in ("{", ",") and after == ":"
            if (before == "." and after != "(") or (is_key and is_in_pattern[-1]):
                read.append(name)
            elif is_key:
                made.add(name)
    return tuple(dict.fromkeys(name for name in read if name not in made))


def check(text: str) -> None:
    """Refuse a text that could do anything but read within bounds.

    Raises:
        InputError: The message names the first offending word and its place.
    """
    size = len(text.encode("utf-8", errors="surrogatepass"))
    if size > MAX_TEXT_BYTES:
        raise InputError(f"query: text: {size} bytes are more than {MAX_TEXT_BYTES}")
    for sign, why in (("\\u", "escapes by code point"), ("\\U", "escapes by code point"), ("/*", "block comments")):
        if sign in text:
            raise _refusal(text, text.index(sign), sign, f"{why} are not allowed")
    found = list(tokens(text))
    if not found or found[0].text.upper() not in FIRST_WORDS:
        word = found[0].text if found else "nothing"
        raise InputError(f"query: {word}: a query must begin with one of {', '.join(sorted(FIRST_WORDS))}")
    for at in range(len(found)):
        _check_word(text, found, at)
    for at in range(len(found)):
        _check_path(text, found, at)


def _check_word(text: str, found: Sequence[Token], at: int) -> None:
    token = found[at]
    if token.kind not in ("word", "quoted"):
        return
    upper = token.text.upper()
    before = found[at - 1].text if at else ""
    calls = at + 1 < len(found) and found[at + 1].text == "("
    is_function = token.kind == "word" and token.text.lower() in FUNCTIONS and before != "."
    if calls and not is_function and not (token.kind == "word" and upper in _OPENERS and before != "."):
        raise _refusal(text, token.at, token.text, "is not one of the functions that may be called")
    if token.kind == "word" and upper in VERBS and before not in (".", ":"):
        raise _refusal(text, token.at, token.text, "is not allowed; a query here may only read")


def _check_path(text: str, found: Sequence[Token], at: int) -> None:
    sign, before = found[at].text, found[at - 1].text if at else ""
    if sign == "[" and before == "-":
        _check_hops(text, found, at)
    follows = [token.text for token in found[at + 1 : at + 2]]
    arrow_ends = (sign == ">" and before == "-") or (sign == "-" and before == "]")
    if arrow_ends and follows and follows[0] in ("+", "*", "{"):
        raise _refusal(text, found[at + 1].at, follows[0], "a path must have an upper bound, as in *1..5")
    if sign == ")" and follows and (follows[0] == "{" or (follows[0] in ("+", "*") and _holds_path(found, at))):
        raise _refusal(text, found[at + 1].at, follows[0], "a path must have an upper bound, as in *1..5")


def _check_hops(text: str, found: Sequence[Token], start: int) -> None:
    depth = 0
    for at in range(start + 1, len(found)):
        sign = found[at].text
        depth += (sign in ("{", "[", "(")) - (sign in ("}", "]", ")"))
        if depth < 0:
            return
        if sign == "*" and depth == 0:
            bound = _upper_bound([token.text for token in found[at + 1 : at + 4]])
            if bound is None or bound > MAX_HOPS:
                why = f"a path must have an upper bound of at most {MAX_HOPS} hops, as in *1..5"
                raise _refusal(text, found[at].at, "*", why)


def _upper_bound(after: Sequence[str]) -> int | None:
    """Return the highest number of hops that follows a star: ``n``, ``..m`` or ``n..m``."""
    rest = [*after, "", "", ""]
    if rest[0].isdigit() and rest[1] != "..":
        return int(rest[0])
    end = rest[1] if rest[0] == ".." else rest[2] if rest[1] == ".." else ""
    return int(end) if end.isdigit() else None


def _holds_path(found: Sequence[Token], close: int) -> bool:
    depth = 0
    for at in range(close, -1, -1):
        sign = found[at].text
        depth += (sign == ")") - (sign == "(")
        if depth == 0:
            return False
        if sign == "-" and found[at + 1].text in ("[", "-", ">", "("):
            return True
    return False


def _refusal(text: str, at: int, word: str, why: str) -> InputError:
    line = text.count("\n", 0, at) + 1
    column = at - text.rfind("\n", 0, at)
    shown = word if word.isascii() and word.isprintable() else ascii(word)
    return InputError(f"query: line {line}, column {column}: {shown}: {why}")
