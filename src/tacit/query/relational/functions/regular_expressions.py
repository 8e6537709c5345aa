r"""Regular expressions in linear time: a common subset with one meaning, run as a deterministic automaton.

*Syntax.* Characters; ``.`` (any but a new line); sets ``[a-z]``, ``[^,;]``; ``\d \w \s`` and their
opposites, of ASCII; ``\t \n \r``; a backslash before any sign; groups ``( )`` and ``(?: )``; ``|``; ``* + ?``, ``{m}``,
``{m,}`` and ``{m,n}`` up to 100; ``^`` at the beginning and ``$`` at the end of the whole expression or of one of its
outermost alternatives; ``(?i)`` at the very beginning, which ignores the case of ASCII letters. Back-references,
look-around, lazy quantifiers and word boundaries are refused: they have no automaton, or no one meaning.

*Meaning.* Whether some part of the text matches. Nothing depends on which part it is, so the difference between the
leftmost and the longest match does not matter.

*Time.* The expression becomes a deterministic automaton of at most :data:`MAX_STATES` states before any data is read,
or is refused. It takes one step per character. Java's own matcher, which backtracks, took 9 s for ``a*a*a*a*b`` on one
text of 121 letters, and that time would reveal a person's text. Python and Spark run this automaton; DuckDB (RE2) and
PostgreSQL (whose matcher builds the same automaton step by step when no group is extracted) get the expression
rewritten from its tree, with sets and anchors spelled out.
"""

from __future__ import annotations

import re
import string
from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Final, NamedTuple

from tacit.query.refusal import Refusal
from tacit.query.relational.expressions import Expression
from tacit.query.relational.functions.registry import Function, a_text, constant_text, register, takes
from tacit.query.relational.functions.text import replacement_growth
from tacit.query.types import BOOLEAN, TEXT

MAX_STATES: Final = 200
#: Most states times classes of characters, and most rests of a pattern in one state: planning takes time proportional
#: to their product.
_MAX_CELLS: Final = 2000
_MAX_PLACES: Final = 400
_MAX_REPEAT: Final = 100
_COUNTS: Final = re.compile(r"([0-9]{1,9})(,([0-9]{1,9})?)?\}")
_MAX_LENGTH: Final = 200
_MAX_DEPTH: Final = 20
_LAST: Final = 0x10FFFF

#: Sorted, disjoint, inclusive intervals of code points.
Set = tuple[tuple[int, int], ...]


def _set(*parts: tuple[int, int]) -> Set:
    merged: list[tuple[int, int]] = []
    for low, high in sorted(parts):
        if merged and low <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(high, merged[-1][1]))
        else:
            merged.append((low, high))
    return tuple(merged)


def _outside(members: Set) -> Set:
    found, at = [], 0
    for low, high in members:
        if low > at:
            found.append((at, low - 1))
        at = high + 1
    return tuple(found) + (((at, _LAST),) if at <= _LAST else ())


def _of(text: str) -> Set:
    return _set(*((ord(char), ord(char)) for char in text))


_ANY: Final = ((0, _LAST),)
_DIGITS: Final = _set((48, 57))
_UPPER, _LOWER = _set((65, 90)), _set((97, 122))
_LETTERS: Final = _set(*_UPPER, *_LOWER)
_WORD: Final = _set(*_DIGITS, *_LETTERS, (95, 95))
_SPACE: Final = _of(" \t\n\r\f\v")
_ESCAPES: Final = {
    "d": _DIGITS, "D": _outside(_DIGITS), "w": _WORD, "W": _outside(_WORD), "s": _SPACE, "S": _outside(_SPACE),
    "t": _of("\t"), "n": _of("\n"), "r": _of("\r"),
}  # fmt: skip
# -- the tree; nodes are compared by identity, so that what is left of a pattern is a cheap key


@dataclass(frozen=True, eq=False)
class OneCharacter:
    """One character of a set."""

    members: Set


@dataclass(frozen=True, eq=False)
class Sequel:
    """Concatenation of parts."""

    parts: tuple[PatternNode, ...]


@dataclass(frozen=True, eq=False)
class Alternatives:
    """Alternation: one of several parts."""

    choices: tuple[PatternNode, ...]


@dataclass(frozen=True, eq=False)
class Repetition:
    """A part repeated ``least`` to ``most`` times; ``most`` is None for any number."""

    part: PatternNode
    least: int
    most: int | None

    @cached_property
    def once_less(self) -> Repetition:
        """What is left of the repetition after its part."""
        if self.least == 0 and self.most is None:
            return self
        return Repetition(self.part, max(self.least - 1, 0), None if self.most is None else self.most - 1)


PatternNode = OneCharacter | Sequel | Alternatives | Repetition


class OuterAlternative(NamedTuple):
    """An outermost alternative, and whether it is anchored at the begin and the end of the text."""

    begins: bool
    node: PatternNode
    ends: bool


def _refused(why: str) -> Refusal:
    return Refusal(
        "pattern",
        f"A regular expression cannot have {why} here: characters, sets, groups, |, *, +, ?, {{m,n}}, and ^ and $ at "
        "the ends are understood.",
    )


class _Reader:
    """Recursive-descent parser of a pattern."""

    def __init__(self, text: str, *, ignore_case: bool) -> None:
        self.text = text
        self.at = 0
        self.ignore_case = ignore_case

    def branches(self) -> tuple[OuterAlternative, ...]:
        found = [self._branch()]
        while self._take("|"):
            found.append(self._branch())
        if self.at < len(self.text):
            raise _refused("a parenthesis without its other half")
        return tuple(found)

    def _branch(self) -> OuterAlternative:
        begins = self._take("^")
        node = self._chain(1)
        return OuterAlternative(begins, node, self._take("$"))

    def _peek(self) -> str:
        return self.text[self.at : self.at + 1]

    def _take(self, sign: str) -> bool:
        found = self.text.startswith(sign, self.at)
        self.at += len(sign) if found else 0
        return found

    def _either(self, depth: int) -> PatternNode:
        choices = [self._chain(depth)]
        while self._take("|"):
            choices.append(self._chain(depth))
        return choices[0] if len(choices) == 1 else Alternatives(tuple(choices))

    def _chain(self, depth: int) -> PatternNode:
        parts: list[PatternNode] = []
        while self._peek() not in ("", "|", ")", "$"):
            parts.append(self._repeated(self._atom(depth)))
        return parts[0] if len(parts) == 1 else Sequel(tuple(parts))

    def _repeated(self, node: PatternNode) -> PatternNode:
        limits: tuple[int, int | None] | None = None
        if self._take("*"):
            limits = (0, None)
        elif self._take("+"):
            limits = (1, None)
        elif self._take("?"):
            limits = (0, 1)
        elif self._take("{"):
            limits = self._counts()
        if limits is None:
            return node
        if self._peek() and self._peek() in "*+?{":
            raise _refused("a quantifier after another one")
        return Repetition(node, *limits)

    def _counts(self) -> tuple[int, int | None]:
        found = _COUNTS.match(self.text, self.at)
        if found is None:
            raise _refused("braces other than {m}, {m,} and {m,n}")
        least = int(found[1])
        most = least if found[2] is None else int(found[3]) if found[3] else None
        if max(least, most or 0) > _MAX_REPEAT or (most is not None and most < least):
            raise _refused(f"a repetition beyond {_MAX_REPEAT}, or backwards,")
        self.at = found.end()
        return least, most

    def _atom(self, depth: int) -> PatternNode:
        if depth > _MAX_DEPTH:
            raise _refused(f"more than {_MAX_DEPTH} groups inside one another")
        sign = self.text[self.at]
        self.at += 1
        if sign == "(":
            if self._take("?") and not self._take(":"):
                raise _refused("look-around, flags or names of groups")
            node = self._either(depth + 1)
            if not self._take(")"):
                raise _refused("a ^ or $ inside, or a parenthesis without its other half")
            return node
        if sign == "[":
            return OneCharacter(self._bracket())
        if sign == ".":
            return OneCharacter(_outside(_of("\n")))
        if sign == "\\":
            return OneCharacter(self._cased(self._escaped()))
        if sign in "*+?{^)":
            raise _refused(f"{sign} at this place")
        return OneCharacter(self._cased(_of(sign)))

    def _escaped(self) -> Set:
        sign = self._peek()
        self.at += 1
        if sign in _ESCAPES and sign:
            return _ESCAPES[sign]
        if not sign or sign.isalnum():
            raise _refused(f"\\{sign}")
        return _of(sign)

    def _cased(self, members: Set) -> Set:
        if not self.ignore_case:
            return members
        others = [ord(letter.swapcase()) for letter in string.ascii_letters if _holds(members, ord(letter))]
        return _set(*members, *((point, point) for point in others))

    def _bracket(self) -> Set:
        negated = self._take("^")
        parts: list[tuple[int, int]] = []
        first = True
        while first or self._peek() != "]":
            first = False
            low = self._member()
            if (
                len(low) == 1
                and low[0][0] == low[0][1]
                and self._peek() == "-"
                and self.text[self.at + 1 : self.at + 2] not in ("]", "")
            ):
                self.at += 1
                high = self._member()
                if len(high) != 1 or high[0][0] != high[0][1] or high[0][0] < low[0][0]:
                    raise _refused("a range in a set that goes backwards")
                low = ((low[0][0], high[0][0]),)
            parts += low
        self.at += 1
        members = self._cased(_set(*parts))
        return _outside(members) if negated else members

    def _member(self) -> Set:
        sign = self._peek()
        if not sign:
            raise _refused("a set without ]")
        if sign == "[":
            raise _refused("[ inside a set without a backslash before it")
        self.at += 1
        return self._escaped() if sign == "\\" else _of(sign)


@lru_cache(maxsize=256)
def read(pattern: str) -> tuple[OuterAlternative, ...]:
    """Parse a pattern into its outermost alternatives.

    Raises:
        Refusal: it is not in the common subset.
    """
    if "\0" in pattern:
        raise _refused("the character NUL")
    ignore = pattern.startswith("(?i)")
    return _Reader(pattern[4:] if ignore else pattern, ignore_case=ignore).branches()


def is_anchored(pattern: str) -> bool:
    """Whether every alternative is anchored at both ends of the text, so that only the whole text can match."""
    return all(branch.begins and branch.ends for branch in read(pattern))


def from_escaped(pattern: str, escape: str, ignore_case: bool) -> str:
    """Return a LIKE pattern with an escape character as a regular expression for the whole text."""
    pieces, signs = [], iter(pattern)
    for char in signs:
        if char == escape:
            char = next(signs, "")
            if char not in ("%", "_", escape) or not char:
                raise Refusal("pattern", f"After {escape!r} in a pattern comes %, _ or {escape!r} itself.")
        elif char in "%_":
            pieces.append("(?:.|\\n)*" if char == "%" else "(?:.|\\n)")
            continue
        pieces.append(f"\\{char}" if char in ".^$*+?()[]{}|\\" else char)
    return f"{'(?i)' if ignore_case else ''}^(?:{''.join(pieces)})$"


# -- the automaton


@dataclass(frozen=True)
class Automaton:
    """A deterministic automaton over classes of characters.

    Args:
        starts: the first code point of each class, ascending; the first is 0.
        steps: for each state, the next one by class; state 0 is the first.
        accepts: the accepting states, for texts that end there.
    """

    starts: tuple[int, ...]
    steps: tuple[tuple[int, ...], ...]
    accepts: frozenset[int]

    def fits(self, text: str) -> bool:
        """Whether some part of a text matches."""
        state = 0
        for char in text:
            state = self.steps[state][bisect_right(self.starts, ord(char)) - 1]
        return state in self.accepts


#: Nodes that are to be matched one after the other, of a whole text or of what is left of it.
_Rest = tuple[PatternNode, ...]
_ANYTHING: Final = Repetition(OneCharacter(_ANY), 0, None)


@lru_cache(maxsize=256)
def automaton(pattern: str) -> Automaton:
    """Return the automaton that accepts texts of which some part matches.

    A state is the set of the rests that may match what is left of a text, by partial derivatives (Antimirov 1996).

    Raises:
        Refusal: the pattern is not in the common subset, or its automaton is too large.
    """
    wholes: list[_Rest] = [
        (*([] if begins else [_ANYTHING]), node, *([] if ends else [_ANYTHING])) for begins, node, ends in read(pattern)
    ]
    sets = {members for whole in wholes for node in whole for members in _sets(node)}
    cuts = {0} | {cut for members in sets for low, high in members for cut in (low, high + 1)}
    starts = tuple(sorted(cut for cut in cuts if cut <= _LAST))
    known = {_beginnings(wholes): 0}
    queue, steps = list(known), []
    for state in queue:
        row = []
        for start in starts:
            after = _beginnings([rest for first, rest in state if first is not None and _holds(first.members, start)])
            if after not in known:
                if len(known) >= MAX_STATES or len(known) * len(starts) >= _MAX_CELLS:
                    raise Refusal("pattern", "The regular expression is too large; use fewer alternatives and counts.")
                known[after] = len(known)
                queue.append(after)
            row.append(known[after])
        steps.append(tuple(row))
    return Automaton(starts, tuple(steps), frozenset(n for state, n in known.items() if (None, ()) in state))


def _beginnings(rests: list[_Rest]) -> frozenset[tuple[OneCharacter | None, _Rest]]:
    """Return the characters that some rests begin with, each with the rest after it; None for the end of the text."""
    seen, stack, found = set[_Rest](), list(rests), set[tuple[OneCharacter | None, _Rest]]()
    while stack:
        rest = stack.pop()
        if rest in seen:
            continue
        if rest == (_ANYTHING,):
            # Once a part has matched, the rest of the text does not matter.
            return _MATCHED
        seen.add(rest)
        if len(seen) > _MAX_PLACES:
            raise Refusal("pattern", "The regular expression is too large; use smaller repetitions.")
        match rest:
            case ():
                found.add((None, ()))
            case (OneCharacter() as first, *after):
                found.add((first, tuple(after)))
            case (Sequel(parts), *after):
                stack.append((*parts, *after))
            case (Alternatives(choices), *after):
                stack += [(choice, *after) for choice in choices]
            case (Repetition() as node, *after):
                if node.least == 0:
                    stack.append(tuple(after))
                if node.most != 0:
                    stack.append((node.part, node.once_less, *after))
    return frozenset(found)


#: Any text may follow.
_MATCHED: Final = frozenset({(None, ()), (OneCharacter(_ANY), (_ANYTHING,))})


def _sets(node: PatternNode) -> Iterator[Set]:
    match node:
        case OneCharacter(members):
            yield members
        case Sequel(parts) | Alternatives(parts):
            for part in parts:
                yield from _sets(part)
        case Repetition(part):
            yield from _sets(part)


def _holds(members: Set, point: int) -> bool:
    at = bisect_right(members, (point, _LAST)) - 1
    return at >= 0 and members[at][0] <= point <= members[at][1]


# -- writing it anew


def written(pattern: str, point: Callable[[int], str], first: int = 0) -> str:
    """Write the pattern for RE2 or PostgreSQL; ``point`` spells a code point in a set, ``first`` is the least one."""
    branches = []
    for begins, node, ends in read(pattern):
        branches.append(f"{'^' if begins else ''}{_written(node, point, first)}{'$' if ends else ''}")
    return "|".join(branches)


def _written(node: PatternNode, point: Callable[[int], str], first: int) -> str:
    match node:
        case OneCharacter(members):
            spans = [(max(low, first), high) for low, high in members if high >= first]
            listed = "".join(point(low) if low == high else f"{point(low)}-{point(high)}" for low, high in spans)
            return f"[{listed}]" if listed else f"[^{point(first)}-{point(_LAST)}]"
        case Sequel(parts):
            return "(?:" + "".join(_written(part, point, first) for part in parts) + ")"
        case Alternatives(choices):
            return "(?:" + "|".join(_written(choice, point, first) for choice in choices) + ")"
        case Repetition(part, least, most):
            limit = {(0, None): "*", (1, None): "+", (0, 1): "?"}.get(
                (least, most), f"{{{least},{'' if most is None else most}}}"
            )
            return f"(?:{_written(part, point, first)}){limit}"


# -- runs of one kind of character


def run_of(pattern: str) -> OneCharacter | Repetition | None:
    """Return the set, or the set repeated by +, that makes up a whole pattern; None for any other pattern.

    Such a run begins and ends at the same positions by every rule of matching, and no engine backtracks over it.
    """
    branches = read(pattern)
    node = branches[0].node
    plain = len(branches) == 1 and not branches[0].begins and not branches[0].ends
    if (
        plain
        and isinstance(node, Repetition)
        and isinstance(node.part, OneCharacter)
        and (node.least, node.most) == (1, None)
    ):
        return node
    return node if plain and isinstance(node, OneCharacter) else None


def _extract(value: str, pattern: str) -> str:
    begin, end = _first_run(value, pattern, 0)
    return value[begin:end]


def _first_run(value: str, pattern: str, begin: int) -> tuple[int, int]:
    """Return the begin and end of the first run from ``begin`` on; both are the end of the text if there is none."""
    run = run_of(pattern)
    members = run.members if isinstance(run, OneCharacter) else run.part.members  # type: ignore[union-attr]
    while begin < len(value) and not _holds(members, ord(value[begin])):
        begin += 1
    end = begin + (begin < len(value))
    while isinstance(run, Repetition) and end < len(value) and _holds(members, ord(value[end])):
        end += 1
    return begin, end


def _replaced(value: str, pattern: str, new: str) -> str:
    pieces, at = [], 0
    while at < len(value):
        begin, end = _first_run(value, pattern, at)
        pieces.append(value[at:begin] + (new if end > begin else ""))
        at = end
    return "".join(pieces)


# -- functions


def _a_pattern(name: str, arg: Expression) -> Expression:
    automaton(constant_text(name, arg, "the pattern", _MAX_LENGTH))
    return arg


def _a_run(name: str, arg: Expression) -> Expression:
    if run_of(constant_text(name, arg, "the pattern", _MAX_LENGTH)) is None:
        raise Refusal(
            "pattern",
            f"{name} takes one set of characters, or a run of them, such as '[0-9]+': which part other patterns find "
            "differs from engine to engine. REGEXP_MATCHES takes any pattern; SPLIT_PART and SUBSTRING cut texts.",
        )
    return arg


def _a_replacement(name: str, arg: Expression) -> Expression:
    if set(constant_text(name, arg, "the replacement")) & set("\\$&"):
        raise Refusal("literal", f"{name}: the replacement is a text without \\, $ and &.")
    return arg


register(
    Function(
        "regexp", "whether a part of x fits a pattern", 2, takes(a_text, _a_pattern, result=BOOLEAN),
        lambda x, pattern: automaton(pattern).fits(x), cost=64, inner=True, sign="REGEXP_MATCHES",
    ),
    Function(
        "regexp_extract", "first run of a set in x, or nothing", 2, takes(a_text, _a_run, result=TEXT), _extract,
        cost=32,
    ),
    Function(
        "regexp_replace", "every run of a set in x replaced", 3, takes(a_text, _a_run, _a_replacement, result=TEXT),
        _replaced, growth=replacement_growth, cost=32, inner=True,
    ),
)  # fmt: skip
