"""Several attributes of one person in one report: split the ε over all of them, or sample one."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from tacit.core.errors import InputError
from tacit.core.numbers import Number, exact_positive
from tacit.local.draws import Draws
from tacit.local.frequencies import EstimateRow
from tacit.local.protocol import Counts, LocalProtocol, Rows, in_words, protocol_from


class Attributes(LocalProtocol):
    """One report about several attributes, each collected by a protocol of its own.

    *Sample*: a person reports one attribute, drawn at random, with the whole ε. *Split*: they report all d, each with
    ε/d. Sampling has the smaller error for almost all protocols, because errors grow faster than 1/√n as ε shrinks.

    Privacy:
        relation: replace-one, of all attributes together. Sample: the attribute does not depend on the values, and its
        report is ε-DP. Split: ε/d each, d times; the sum is ε exactly.

    Sensitivity:
        none to state: all attributes may change at once.

    Error:
        that of each protocol, from n/d reports (sample) or from n reports of ε/d (split).

    Assumes:
        clients follow the protocol. A missing attribute is mapped by its protocol's rule.

    References:
        Nguyen et al. (2016); Wang et al. (2019).
    """

    kind: ClassVar[str] = "attributes"

    def __init__(self, *, attributes: Mapping[str, Mapping[str, Any]], epsilon: Number, method: str = "sample") -> None:
        super().__init__(epsilon=epsilon)
        if method not in ("sample", "split"):
            raise InputError("method", "must be sample or split")
        if not 2 <= len(attributes) <= 255 or not all(attributes):
            raise InputError("attributes", "must name from 2 to 255 attributes")
        self.method = method
        share = self._epsilon if method == "sample" else self._epsilon / len(attributes)
        self.protocols: dict[str, LocalProtocol] = {}
        for name, words in attributes.items():
            if exact_positive(words.get("epsilon", share), "epsilon") != share:
                raise InputError("epsilon", f"of {name!r} follows from that of all; leave it out")
            self.protocols[name] = protocol_from({**words, "epsilon": in_words(share)})
        widths = [each.width for each in self.protocols.values()]
        self.width = 1 + max(widths) if method == "sample" else sum(widths)
        # Behind the sums of the protocols are their numbers of reports.
        self.size = sum(each.size for each in self.protocols.values()) + len(self.protocols)

    def randomise(self, value: object, draws: Draws) -> bytes:
        """The report of a mapping from attributes to values."""
        values = value if isinstance(value, Mapping) else {}
        if self.method == "split":
            return b"".join(each.randomise(values.get(name), draws) for name, each in self.protocols.items())
        place = draws.below(len(self.protocols))
        name, protocol = list(self.protocols.items())[place]
        return (bytes((place,)) + protocol.randomise(values.get(name), draws)).ljust(self.width, b"\0")

    def accumulate(self, counts: Counts, rows: Rows) -> None:
        """Add to the sums of each attribute."""
        fresh = np.zeros_like(counts)
        start, column = 0, 0
        if self.method == "sample" and len(rows) and rows[:, 0].max() >= len(self.protocols):
            raise InputError("reports", "name an attribute that there is not")
        for place, protocol in enumerate(self.protocols.values()):
            if self.method == "split":
                part = rows[:, column : column + protocol.width]
            else:
                mine = rows[rows[:, 0] == place, 1:]
                part = mine[:, : protocol.width]
                if mine[:, protocol.width :].any():
                    raise InputError("reports", "are longer than the report of their attribute")
            protocol.accumulate(fresh[start : start + protocol.size], part)
            fresh[place - len(self.protocols)] = len(part)
            start, column = start + protocol.size, column + protocol.width
        counts += fresh

    def estimate(self, counts: Counts, n: int, *, confidence: float) -> dict[str, Any]:  # noqa: ARG002
        """The estimate of each attribute that has reports; all intervals of all attributes hold together."""
        found, start = {}, 0
        each = 1 - (1 - confidence) / len(self.protocols)
        for place, (name, protocol) in enumerate(self.protocols.items()):
            reports = int(counts[place - len(self.protocols)])
            if reports:
                found[name] = protocol.estimate(counts[start : start + protocol.size], reports, confidence=each)
            start += protocol.size
        return _Estimates(found)

    @property
    def spent(self) -> Fraction:
        """Total ε of one report: never more than ``epsilon``."""
        shares = [each.epsilon for each in self.protocols.values()]
        return max(shares) if self.method == "sample" else sum(shares, Fraction(0))

    def parameters(self) -> dict[str, Any]:
        """Attributes and method."""
        listed = {name: _without_epsilon(each.spec()) for name, each in self.protocols.items()}
        return {"attributes": listed, "method": self.method}


class _Estimates(dict[str, Any]):
    """Estimates by attribute."""

    def rows(self) -> list[EstimateRow]:
        return [row._replace(label=f"{name}: {row.label}") for name, each in self.items() for row in each.rows()]

    def consistent(self) -> _Estimates:
        return _Estimates({name: each.consistent() for name, each in self.items()})


def _without_epsilon(spec: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in spec.items() if name != "epsilon"}
