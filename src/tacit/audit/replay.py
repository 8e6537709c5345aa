"""Record and replay: detect dependence on one unit's data outside mechanism inputs.

Code is *recorded* on a database: the input and output of every mechanism. It is then *replayed* on a neighbour with the
outputs frozen: each mechanism returns its recorded output. Everything else that is visible must be a function of those
outputs and of public values, so it must be the same; and each mechanism's input may have moved by no more than the
sensitivity it declares. Both are checked exactly on one pair of runs; nothing is sampled.

A pass holds for these two databases alone. With :func:`~tacit.audit.search.propose_neighbours` it is cheap to try many.

Random bits that code draws outside of a mechanism are served again in the same order, so that shuffles and coin flips
do not look like leaks; noise that is added by hand is not hidden that way, because the sum still moves.

References: Cebere, Erb, Desfontaines, Bellet and Fitzsimons, "Privacy in theory, bugs in practice", 2026.
"""

from __future__ import annotations

import contextlib
import io
import json
import sys
import warnings
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tacit.accounting.compose import compose
from tacit.audit.lower_bound import observe
from tacit.core.errors import AccountingError, InputError
from tacit.core.guarantees import ZCDP, Guarantee, PureDP
from tacit.core.numbers import Number
from tacit.mechanisms.additive import AdditiveNoise, OnGrid
from tacit.mechanisms.base import Mechanism
from tacit.mechanisms.exponential import Exponential
from tacit.mechanisms.gaussian import Gaussian
from tacit.mechanisms.key_order import plain_order
from tacit.mechanisms.noisy_max import NoisyMax
from tacit.mechanisms.partition_selection import PartitionSelection
from tacit.mechanisms.permute_and_flip import PermuteAndFlip
from tacit.mechanisms.randomized_response import RandomizedResponse
from tacit.mechanisms.selection_scores import Selection
from tacit.mechanisms.sparse_vector import SparseVector
from tacit.mechanisms.top_k import TopK
from tacit.noise import entropy
from tacit.noise.entropy import BitSource

#: A group of this many units exists in every neighbouring database as well, so its key may be kept in both.
_KEPT_FROM: Final = 2


@dataclass(frozen=True)
class CallInputs:
    """Inputs of one call of a mechanism.

    Args:
        mechanism: its name and public parameters; must be equal on neighbours.
        entries: the input numbers, by index or by key.
        declared: the declared sensitivity in each norm: ``l1``, ``l2 squared``, ``linf``, ``entries`` (how many may
            move).
        absent_is_zero: whether a key that one neighbour lacks counts as zero.
        guarantee: the cost of the call, if it states one.
        stream: the object whose one cost covers many calls, if there is one.
    """

    mechanism: str
    entries: Mapping[Any, Any]
    declared: Mapping[str, Fraction] = field(default_factory=dict)
    absent_is_zero: bool = False
    guarantee: Guarantee | None = None
    stream: object | None = None


@contextmanager
def _stateless(_: Any, __: Any) -> Iterator[None]:
    """Keep no state: most mechanisms have none."""
    yield


@dataclass(frozen=True)
class Hook:
    """Method or function to intercept.

    Args:
        owner: the class or module that holds it.
        attribute: its name there.
        read: returns the inputs of a call from the call's arguments, ``self`` first.
        choose: returns an output to record instead of the true one, where both neighbours must be able to give it.
        leaving: context around a true run of the mechanism, which leaves the state as after giving a frozen output.
        align: returns the frozen output in the neighbour's form, from the recorded inputs and output and the new
            inputs.
    """

    owner: Any
    attribute: str
    read: Callable[..., CallInputs]
    choose: Callable[..., Any] | None = None
    leaving: Callable[[Any, Any], AbstractContextManager[None]] = _stateless
    align: Callable[[CallInputs, Any, CallInputs], Any] | None = None


def seams() -> Iterator[Hook]:
    """Generate all current hooks: of Tacit's mechanisms, of user-defined ones, and of loaded packages above this."""
    yield Hook(AdditiveNoise, "release", _read_additive)
    yield Hook(OnGrid, "release", _read_on_grid)
    yield Hook(PartitionSelection, "release", _read_partition, choose=_keep_partition, align=_align_partition)
    yield Hook(RandomizedResponse, "release", _read_response)
    yield Hook(RandomizedResponse, "release_many", _read_responses)
    for method in ("ask", "ask_value"):
        yield Hook(SparseVector, method, _read_query, leaving=_one_yes_less)
    for choice in (Exponential, NoisyMax, PermuteAndFlip, TopK):
        yield Hook(choice, "release", _read_scores)
    for kind in _below(Mechanism):
        if not kind.__module__.startswith("tacit.mechanisms.") and "release" in vars(kind):
            yield Hook(kind, "release", _read_unknown)
    # Packages above this one, which it must not import: found by name, if another module has loaded them.
    query, learn = (sys.modules.get(f"tacit.{room}.release") for room in ("query", "learn"))
    if query is not None:
        yield Hook(query, "draw", _read_draw, choose=_keep_drawn, align=_align_drawn)
    if learn is not None:
        for name in ("release_gaussian", "release_laplace"):
            yield Hook(learn, name, _read_fit)


def _below(kind: type) -> Iterator[Any]:
    each: type
    for each in kind.__subclasses__():
        yield each
        yield from _below(each)


def _numbers(value: Any) -> dict[Hashable, Any]:
    """Return numbers by index; exact, so that even a difference by one rounding shows."""
    if isinstance(value, Mapping):
        return {key: _exactly(each) for key, each in value.items()}
    if isinstance(value, np.ndarray):
        return {(value.shape, i): _exactly(each) for i, each in enumerate(value.ravel().tolist())}
    if isinstance(value, Iterable) and not isinstance(value, (str, bytes)):
        return {i: _exactly(each) for i, each in enumerate(value)}
    return {0: _exactly(value)}


def _exactly(value: Any) -> Any:
    """Return a number as a Fraction, and anything else (NaN, text) as text, which a mechanism will refuse."""
    if isinstance(value, np.generic):
        value = value.item()
    try:
        return Fraction(value) if isinstance(value, (int, float, Fraction)) else repr(value)
    except (ValueError, OverflowError):
        return repr(value)


def _read_additive(self: Any, value: Any) -> CallInputs:
    if isinstance(self, Gaussian):
        declared = {"l2 squared": self.l2_squared}
        public = f"Gaussian(l2_squared={self.l2_squared}, {self.guarantee!r})"
    else:
        moved = getattr(self, "l1_sensitivity", None)
        declared = {} if moved is None else {"l1": Fraction(moved)}
        public = f"{type(self).__name__}(l1_sensitivity={moved}, {self.guarantee!r})"
    return CallInputs(public, _numbers(value), declared, guarantee=self.guarantee)


def _read_on_grid(self: OnGrid, value: Any) -> CallInputs:
    return CallInputs(f"OnGrid({self.grid!r}, {self.guarantee!r})", _numbers(value), guarantee=self.guarantee)


def _read_scores(self: Selection[Any], scores: Any, candidates: Any = None) -> CallInputs:
    entries = _numbers(scores)
    if candidates is not None:
        entries = dict(zip(map(repr, candidates), entries.values(), strict=False))
    declared = {"linf": self.sensitivity}
    public = f"{type(self).__name__}(sensitivity={self.sensitivity}, {self.guarantee!r})"
    return CallInputs(public, entries, declared, guarantee=self.guarantee)


def _read_query(self: SparseVector, value: Any) -> CallInputs:
    declared = {"linf": self._sensitivity}
    return CallInputs(repr(self), _numbers(value), declared, guarantee=self.guarantee, stream=self)


@contextmanager
def _one_yes_less(self: SparseVector, output: Any) -> Iterator[None]:
    left = self._left
    yield
    self._left = left - (output is not None and output is not False)


def _read_response(self: RandomizedResponse, answer: Any) -> CallInputs:
    return CallInputs(repr(self), {0: repr(answer)}, {"entries": Fraction(1)}, guarantee=self.guarantee)


def _read_responses(self: RandomizedResponse, answers: Iterable[Any]) -> CallInputs:
    entries = {i: repr(answer) for i, answer in enumerate(answers)}
    return CallInputs(repr(self), entries, {"entries": Fraction(1)}, guarantee=self.guarantee)


def _read_partition(self: PartitionSelection, units: Any) -> CallInputs:
    touched = Fraction(self._touched)
    declared = {"l1": touched, "linf": Fraction(1)}
    return CallInputs(repr(self), _numbers(units), declared, isinstance(units, Mapping), self.guarantee)


def _keep_partition(_: PartitionSelection, units: Any) -> Any:
    if isinstance(units, Mapping):
        counts = list(units.values())
        return [key for i, key in plain_order(units).items() if counts[i] >= _KEPT_FROM]
    kept = np.asarray(units) >= _KEPT_FROM
    return kept if isinstance(units, np.ndarray) else kept.tolist()


def _align_partition(before: CallInputs, output: Any, after: CallInputs) -> Any:
    """Return the kept keys in public order, without those that the neighbour lacks, whose absence will show."""
    if not before.absent_is_zero:
        return output
    kept = set(output)
    return [key for key in plain_order(after.entries).values() if key in kept]


def _read_unknown(self: Mechanism, *args: Any, **kwargs: Any) -> CallInputs:
    """Read a call of a user-defined mechanism, with the sensitivity that its attributes declare."""
    names = {"l1_sensitivity": "l1", "l2_squared": "l2 squared", "linf_sensitivity": "linf"}
    declared = {norm: Fraction(getattr(self, name)) for name, norm in names.items() if hasattr(self, name)}
    if hasattr(self, "l2_sensitivity"):
        declared["l2 squared"] = Fraction(self.l2_sensitivity) ** 2
    values = [*args, *kwargs.values()]
    entries = {(i, place): each for i, value in enumerate(values) for place, each in _numbers(value).items()}
    return CallInputs(f"{type(self).__name__}({self.guarantee!r})", entries, declared, guarantee=self.guarantee)


def _read_draw(step: Any, keys: Any, raw: Any) -> CallInputs:
    """Read a mechanism of a query plan: noise of a noise block, draws of quantiles, or a selection of keys."""
    if hasattr(step, "fractions"):
        return _read_ranks(step, keys, raw)
    entries = {
        (key, i): int(value)
        for key, row in zip(keys, raw, strict=True)
        for i, value in enumerate(np.ravel(row).tolist())
    }
    selection = not hasattr(step, "block")
    if selection:
        touched = Fraction(step.groups * (1 if step.relation.value == "add_remove" else 2))
        declared = {"l1": touched, "linf": Fraction(1)}
    else:
        moves = step.block.sensitivity
        declared = {"l1": moves.l1, "l2 squared": moves.l2_squared, "linf": moves.linf}
    return CallInputs(repr(step), entries, declared, selection)


def _read_ranks(step: Any, keys: Any, raw: Any) -> CallInputs:
    """Return, for each group, the positions that occur and their numbers of values; a missing position counts as 0."""
    entries = {
        (key, int(place)): int(count) for key, counted in zip(keys, raw, strict=True) for place, count in counted
    }
    most = Fraction(step.rows * (1 if step.relation.value == "add_remove" else 2))
    return CallInputs(repr(step), entries, {"l1": step.groups * most, "linf": most}, absent_is_zero=True)


def _keep_drawn(step: Any, keys: Any, raw: Any) -> Any:  # noqa: ARG001 - named as it may be called
    is_selection = not hasattr(step, "block") and not hasattr(step, "fractions")
    return raw >= _KEPT_FROM if is_selection else NotImplemented


def _align_drawn(before: CallInputs, output: Any, after: CallInputs) -> Any:
    if not before.absent_is_zero or output.dtype != np.bool_:
        return output
    kept = {key for (key, _), keep in zip(before.entries, output, strict=True) if keep}
    return np.array([key in kept for key, _ in after.entries], dtype=np.bool_)


def _read_fit(raw: Any, *noise: Fraction, **named: Fraction) -> CallInputs:
    """Read a model fit: only shape and noise are compared here; the sensitivity is tested with the learners."""
    return CallInputs(f"noise of {[*noise, *named.values()]}", _numbers(raw))


class TapedBits:
    """Bit source that records the bits drawn outside of mechanisms, or replays recorded ones.

    They are replayed while the requests match in order and size; afterwards, and for mechanisms, the bits are genuine.

    Args:
        source: the genuine bit source.
        tape: the bits to replay; None to record.
    """

    def __init__(self, source: BitSource, tape: Sequence[tuple[str, int, Any]] | None = None) -> None:
        self._source = source
        self._left = None if tape is None else list(tape)
        self.drawn: list[tuple[str, int, Any]] = []
        #: Whether a request did not match the recording.
        self.strayed = False

    def word(self) -> int:
        return int(self._next("word", 64, self._source.word))

    def bits(self, count: int) -> int:
        return int(self._next("bits", count, lambda: self._source.bits(count)))

    def words(self, count: int) -> NDArray[np.uint64]:
        drawn: NDArray[np.uint64] = self._next("words", count, lambda: self._source.words(count))
        return drawn.copy()

    def _next(self, kind: str, count: int, draw: Callable[[], Any]) -> Any:
        if _inside.get() or self.strayed:
            return draw()
        if self._left is None:
            self.drawn.append((kind, count, draw()))
            return self.drawn[-1][2]
        if not self._left or self._left[0][:2] != (kind, count):
            self.strayed = True
            return draw()
        return self._left.pop(0)[2]


#: Modules that are skipped in the search for the line that called a mechanism.
_INSIDE: Final = (
    "tacit.mechanisms.",
    "tacit.noise.",
    "tacit.audit.replay",
    "contextlib",
)


@dataclass(frozen=True)
class RecordedCall:
    """One run of a mechanism.

    Args:
        reading: its inputs, and the sensitivity it declares.
        output: its output.
        line: file and line of the call.
    """

    reading: CallInputs
    output: Any
    line: str


@dataclass(frozen=True)
class Finding:
    """Finding of a replay: a forbidden difference caused by one unit.

    Args:
        kind: ``flow``, ``parameters``, ``input``, ``end``, ``visible``, ``printed``, ``charge`` or ``randomness``.
        what: description of the difference.
        line: file and line, if known.
    """

    kind: str
    what: str
    line: str = ""

    def __str__(self) -> str:
        return f"{self.line}: {self.what}" if self.line else self.what


@dataclass(frozen=True)
class ReplayReport:
    """Findings of a replay; truthy when there are none.

    Args:
        findings: forbidden differences.
        calls: number of mechanism runs.
        moved: number of mechanism inputs that moved at all; if it is 0, little was tested.
        how: description of the difference between the neighbours, if stated.
        ended: the error with which both runs ended, if they did.
    """

    findings: tuple[Finding, ...]
    calls: int
    moved: int
    how: str = ""
    ended: str = ""

    def __bool__(self) -> bool:
        return not self.findings

    def to_json(self) -> str:
        """Return the result as JSON text; keys are stable."""
        found = [{"kind": each.kind, "what": each.what, "line": each.line} for each in self.findings]
        content = {"neighbours": self.how, "findings": found, "calls": self.calls, "moved": self.moved}
        return json.dumps(content, indent=2)

    def __str__(self) -> str:
        pair = f" ({self.how})" if self.how else ""
        ran = f"{self.calls} mechanisms ran, {self.moved} inputs moved{pair}"
        ran += f"; both {self.ended}" if self.ended else ""
        if self:
            return f"nothing found: {ran}"
        return f"{len(self.findings)} found: {ran}\n" + "\n".join(f"  {each.kind}: {each}" for each in self.findings)


@dataclass
class Tape:
    """A recorded run, with secret inputs on it: for tests, never for publication.

    Args:
        seen: the visible result or error of the run.
        printed: text that it printed, and its warnings.
        calls: calls of mechanisms, in order.
        bits: bits drawn outside of mechanisms.
    """

    seen: Any = None
    printed: str = ""
    calls: list[RecordedCall] = field(default_factory=list)
    bits: list[tuple[str, int, Any]] = field(default_factory=list)

    @property
    def guarantees(self) -> list[Guarantee]:
        """Guarantees of the mechanisms that ran; a stream of queries with one cost counts once."""
        streams: list[object] = []
        found = []
        for reading in (call.reading for call in self.calls):
            if reading.guarantee is not None and not any(reading.stream is each for each in streams):
                found.append(reading.guarantee)
                streams += [] if reading.stream is None else [reading.stream]
        return found

    def overspent(self, claimed: Guarantee) -> str | None:
        """Describe the total cost of the mechanisms that ran if it exceeds the claim; else return None."""
        spent = self.guarantees
        if not spent:
            return None
        if isinstance(claimed, ZCDP):
            rho = sum((_rho(each) for each in spent), Fraction(0))
            return f"{len(spent)} mechanisms spent rho {float(rho):g}" if rho > claimed.rho else None
        delta = getattr(claimed, "delta", Fraction(0))
        limit = claimed.to_approx(delta).epsilon
        total = compose(spent, delta=delta or None)
        if total.epsilon <= limit and total.delta <= delta:
            return None
        return f"{len(spent)} mechanisms spent epsilon {float(total.epsilon):g} at delta {float(total.delta):g}"


@dataclass(frozen=True)
class _Refused:
    """The error that a mechanism raised, in place of an output."""

    problem: Exception


class _Diverged(BaseException):
    """End of a replay that cannot continue; not an Exception, so that the code under test cannot catch it."""


_inside: ContextVar[bool] = ContextVar("inside", default=False)
_busy: ContextVar[bool] = ContextVar("busy", default=False)

Handler = Callable[[Hook, Callable[..., Any], tuple[Any, ...], dict[str, Any]], Any]


def record(run: Callable[[], Any], *, see: Callable[[Any], Any] | None = None) -> Tape:
    """Run code once and record the inputs and outputs of every mechanism.

    Code that imports a part of Tacit while it runs is run once more, because that part could not be hooked.

    Args:
        run: the code; an exception counts as its result.
        see: returns the visible part of the code's result; left out, all of it.
    """
    known = _places()
    tape = _record(run, see)
    return tape if _places() == known else _record(run, see)


def _places() -> set[tuple[int, str]]:
    return {(id(seam.owner), seam.attribute) for seam in seams()}


def _record(run: Callable[[], Any], see: Callable[[Any], Any] | None) -> Tape:
    tape = Tape()

    def handle(seam: Hook, original: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        reading = seam.read(*args, **kwargs)
        try:
            output = original(*args, **kwargs)
        except Exception as problem:
            tape.calls.append(RecordedCall(reading, _Refused(problem), _caller()))
            raise
        chosen = NotImplemented if seam.choose is None else seam.choose(*args, **kwargs)
        output = output if chosen is NotImplemented else chosen
        tape.calls.append(RecordedCall(reading, output, _caller()))
        return output

    source = TapedBits(entropy.current())
    tape.seen, tape.printed = _run(run, see, handle, source)
    tape.bits = source.drawn
    return tape


def replay(
    function: Callable[[Any], Any],
    first: Any,
    second: Any,
    *,
    claimed: Number | Guarantee | None = None,
    see: Callable[[Any], Any] | None = None,
    how: str = "",
) -> ReplayReport:
    """Record ``function`` on one database, replay it on a neighbour, and report forbidden differences.

    Args:
        function: any code that takes a database and uses Tacit's mechanisms (or a curator's SQL).
        first: a database.
        second: its neighbour.
        claimed: total cost that is claimed, if any; the mechanisms that ran must not cost more.
        see: returns the visible part of the function's result; left out, all of it.
        how: description of the difference between the neighbours, for the report.
    """
    asked = _looked_up(function)
    tape = record(lambda: asked(first), see=see)
    report = replay_tape(tape, lambda: asked(second), see=see, how=how)
    claim = claimed if claimed is None or isinstance(claimed, Guarantee) else PureDP(claimed)
    excess = None if claim is None else tape.overspent(claim)
    if excess is None:
        return report
    lines = dict.fromkeys(call.line for call in tape.calls)
    charge = Finding("charge", f"{excess}, claimed {claim!r}", ", ".join(lines))
    return replace(report, findings=(*report.findings, charge))


def _looked_up(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return a function that looks up a mechanism's method at each call: a bound method cannot be hooked."""
    owner = getattr(function, "__self__", None)
    if not isinstance(owner, Mechanism):
        return function
    name = function.__name__
    return lambda data: getattr(owner, name)(data)


def replay_tape(
    tape: Tape, run: Callable[[], Any], *, see: Callable[[Any], Any] | None = None, how: str = ""
) -> ReplayReport:
    """Run code on a neighbour with every output of ``tape`` frozen, and report forbidden differences."""
    findings: list[Finding] = []
    left = list(tape.calls)
    moves: list[bool] = []

    def handle(seam: Hook, original: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        reading, line = seam.read(*args, **kwargs), _caller()
        if not left:
            raise _Diverged("flow", f"{reading.mechanism} runs, and did not run before", line)
        call = left.pop(0)
        if call.line != line:
            what = f"the next mechanism is called from here, and was called from {call.line} before"
            raise _Diverged("flow", what, line)
        if call.reading.mechanism != reading.mechanism:
            what = f"parameters changed: {_short(reading.mechanism)} instead of {_short(call.reading.mechanism)}"
            findings.append(Finding("parameters", what, line))
        problems, moved = _compare(call.reading, reading)
        moves.append(moved)
        findings.extend(Finding("input", problem, line) for problem in problems)
        refused = call.output.problem if isinstance(call.output, _Refused) else None
        align = seam.align if refused is None else None
        output = call.output if align is None else align(call.reading, call.output, reading)
        try:
            with seam.leaving(args[0] if args else None, None if refused else output):
                original(*args, **kwargs)
        except Exception as problem:
            if repr(problem) != repr(refused):
                findings.append(Finding("end", f"a mechanism refuses what it is given now: {problem}", line))
            raise
        if refused is not None:
            findings.append(Finding("end", f"a mechanism refused before and does not now: {refused}", line))
            raise refused
        return output

    source = TapedBits(entropy.current(), tape.bits)
    try:
        seen, printed = _run(run, see, handle, source)
    except _Diverged as diverged:
        return ReplayReport((*findings, Finding(*diverged.args)), len(tape.calls), sum(moves), how)
    if not any(each.kind == "end" for each in findings):
        findings.extend(_ends(tape, seen, printed, left))
    if source.strayed and not findings:
        findings.append(Finding("randomness", "other random bits are drawn outside of mechanisms than before"))
    ended = tape.seen.shape if tape.seen.shape.startswith("raised ") and tape.seen.label == seen.label else ""
    return ReplayReport(tuple(findings), len(tape.calls), sum(moves), how, ended)


def _ends(tape: Tape, seen: Any, printed: str, left: Sequence[RecordedCall]) -> Iterator[Finding]:
    if left:
        yield Finding("flow", f"{len(left)} mechanisms do not run that ran before", left[0].line)
    if tape.seen.label != seen.label:
        raised = [each.shape for each in (tape.seen, seen) if each.shape.startswith("raised ")]
        if raised:
            yield Finding("end", f"one neighbour ends with: {raised[-1]}")
        elif not tape.calls:
            yield Finding("visible", "the result depends on the data, and no mechanism was used")
        else:
            yield Finding("visible", _difference(tape.seen, seen))
    if tape.printed != printed:
        yield Finding("printed", "something else is printed or warned than before")


def _difference(before: Any, after: Any) -> str:
    if before.shape != after.shape:
        return f"the result has another shape: {_short(after.shape)} instead of {_short(before.shape)}"
    return "the result differs although every mechanism gave the same output"


def _short(shape: str) -> str:
    return shape if len(shape) <= 80 else f"{shape[:77]}..."


def _compare(before: CallInputs, after: CallInputs) -> tuple[list[str], bool]:
    """Return the violations of the declared sensitivity by an input, and whether the input moved at all."""
    mine, theirs = before.entries, after.entries
    if mine.keys() != theirs.keys() and not before.absent_is_zero:
        return ["the input has other places than before: their number or keys depend on the data"], True
    places = [*mine, *(key for key in theirs if key not in mine)]
    pairs = [(mine.get(key, 0), theirs.get(key, 0)) for key in places]
    if "entries" in before.declared:
        moved = sum(a != b for a, b in pairs)
        return ([f"{moved} answers changed, one person has one"] if moved > 1 else []), moved > 0
    if any(isinstance(each, str) for pair in pairs for each in pair):
        strange = [each for pair in pairs for each in pair if isinstance(each, str)]
        return [f"the input is not a number: {strange[0]}"], True
    gaps = [abs(Fraction(a) - Fraction(b)) for a, b in pairs]
    return _beyond(gaps, before), any(gaps)


def _beyond(gaps: Sequence[Fraction], reading: CallInputs) -> list[str]:
    found = {
        "l1": sum(gaps, Fraction(0)),
        "l2 squared": sum((gap * gap for gap in gaps), Fraction(0)),
        "linf": max(gaps, default=Fraction(0)),
    }
    return [
        f"the input moved by {float(found[norm]):g} in {norm}, declared {float(most):g} ({_short(reading.mechanism)})"
        for norm, most in reading.declared.items()
        if found[norm] > most
    ]


def _run(run: Callable[[], Any], see: Callable[[Any], Any] | None, handle: Handler, source: Any) -> tuple[Any, str]:
    """Run code with all hooks set; return its visible result, and the text it printed with its warnings."""
    if _busy.get():
        raise AccountingError("a recording is running already; recordings do not nest")
    out, err = io.StringIO(), io.StringIO()
    with contextlib.ExitStack() as stack:
        warned = stack.enter_context(warnings.catch_warnings(record=True))
        warnings.simplefilter("always")
        for each in (contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), _held(handle, source)):
            stack.enter_context(each)
        seen = observe(lambda _: run() if see is None else see(run()), None)
    messages = [f"{each.category.__name__}: {each.message}" for each in warned]
    return seen, "\n".join([out.getvalue(), err.getvalue(), *messages])


@contextlib.contextmanager
def _held(handle: Handler, source: Any) -> Iterator[None]:
    """Route all hooks through ``handle``, for code of this context only; always undone at the end."""
    busy = _busy.set(True)
    kept: list[tuple[Any, str, Any]] = []
    try:
        for seam in list(seams()):
            original = vars(seam.owner)[seam.attribute]
            kept.append((seam.owner, seam.attribute, original))
            setattr(seam.owner, seam.attribute, _wrapped(seam, original, handle))
        genuine = entropy.current
        kept.append((entropy, "current", genuine))
        setattr(entropy, "current", lambda: source if _busy.get() else genuine())  # noqa: B010
        yield
    finally:
        for owner, attribute, original in reversed(kept):
            setattr(owner, attribute, original)
        _busy.reset(busy)


def _wrapped(seam: Hook, original: Callable[..., Any], handle: Handler) -> Callable[..., Any]:
    def through(*args: Any, **kwargs: Any) -> Any:
        # Other threads, and mechanisms called by mechanisms, are not intercepted.
        if not _busy.get() or _inside.get():
            return original(*args, **kwargs)
        # An iterator can be consumed only once and is needed twice: to read the inputs, and to release.
        args = tuple(list(each) if isinstance(each, Iterator) else each for each in args)
        mark = _inside.set(True)
        try:
            return handle(seam, original, args, kwargs)
        finally:
            _inside.reset(mark)

    return through


def _caller() -> str:
    """Return the line that called the mechanism: the innermost one outside of mechanisms and of this module."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith(_INSIDE):
        frame = frame.f_back
    return f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno} in {frame.f_code.co_name}"


def _rho(guarantee: Guarantee) -> Fraction:
    to_zcdp = getattr(guarantee, "to_zcdp", None)
    if isinstance(guarantee, ZCDP):
        return guarantee.rho
    if to_zcdp is None:
        raise InputError("claimed", f"{type(guarantee).__name__} cannot be counted in rho; claim (epsilon, delta)")
    found: ZCDP = to_zcdp()
    return found.rho
