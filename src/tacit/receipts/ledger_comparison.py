"""Comparison of a receipt with the ledger it refers to.

A signature alone shows that a key signed. A key that was stolen and replaced since can still sign, for any place that
it was in force at. So what a receipt says is compared with the receipt that the ledger holds at that place:

* it is that receipt, word for word; or
* it is about the same release (population, unit, relation, account, project, catalogue, guarantee, charge, place,
  digest of the released numbers, and noise of every mechanism), in the words of a later asker, and the key in force
  *now* has signed it. A receipt in other words whose key was replaced since does not hold any more; asking the same
  question again is free and gives one that does.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tacit.core.errors import InputError
from tacit.ledger import Ledger, RollbackError
from tacit.ledger.signing_keys import key_id
from tacit.receipts.receipt import Receipt
from tacit.receipts.verify_receipt import ReceiptCheck

#: Fields that a later asker words in their own way.
_WORDS: Final = ("query", "plan", "bounding", "groups")
_MECHANISM_WORDS: Final = ("name", "reason")


def against_ledger(receipt: Receipt, ledger: Ledger) -> tuple[ReceiptCheck, ...]:
    """Findings of a comparison with the ledger; for a receipt whose signature holds."""
    try:
        return check_against_ledger(receipt, ledger)
    except RollbackError as problem:
        return (ReceiptCheck("here", False, str(problem)),)


def check_against_ledger(receipt: Receipt, ledger: Ledger) -> tuple[ReceiptCheck, ...]:
    """As :func:`against_ledger`.

    Raises:
        RollbackError: the receipt is newer than the ledger, or speaks of another history: this is an old copy.
    """
    said = receipt.statement
    place = said["ledger"]
    position = int(place["position"])
    ledger.check_receipt(position, place["hash"], ledger=place["id"])
    here = ReceiptCheck("here", True, f"the ledger of this project has it, at entry {position}")
    kept = _kept(ledger, position)
    if kept is None:
        words = f"entry {position} of the ledger released nothing that a receipt could be about"
        return here, ReceiptCheck("released", False, words)
    if said == kept.statement:
        return here, ReceiptCheck("released", True, f"it is the receipt that the ledger holds for entry {position}")
    other = _difference(said, kept.statement)
    if other:
        words = f"the ledger holds another receipt for entry {position}: it differs in {other}"
        return here, ReceiptCheck("released", False, words)
    released = ReceiptCheck("released", True, f"charge, noise and released numbers are those of entry {position}")
    is_current = said["key"] == key_id(ledger.public_key)
    words = (
        "its words are those of a repeated question, signed with the key in force"
        if is_current
        else "its words are not those that the ledger holds, and the key that signed them was replaced since; "
        "ask the question again, which is free, for a receipt that holds"
    )
    return here, released, ReceiptCheck("words", is_current, words)


def _kept(ledger: Ledger, position: int) -> Receipt | None:
    outcome = ledger.outcome(position)
    if outcome is None or not outcome.receipt:
        return None
    try:
        return Receipt.from_json(outcome.receipt)
    except InputError:
        return None


def _difference(said: Mapping[str, Any], kept: Mapping[str, Any]) -> str:
    """The first part in which two statements differ that no later asker may word otherwise; empty if none."""
    for part in sorted({*said, *kept} - {"answers", "key"}):
        if said.get(part) != kept.get(part):
            return {"charge": "what was charged", "guarantee": "its guarantee", "ledger": "its place"}.get(part, part)
    if len(said["answers"]) != len(kept["answers"]):
        return "how many answers it is about"
    for one, other in zip(said["answers"], kept["answers"], strict=True):
        if one["released"] != other["released"]:
            return "the released numbers"
        if _essence(one) != _essence(other):
            return "the mechanisms"
    return ""


def _essence(answer: Mapping[str, Any]) -> dict[str, Any]:
    lines = [{k: v for k, v in line.items() if k not in _MECHANISM_WORDS} for line in answer["mechanisms"]]
    return {**{k: v for k, v in answer.items() if k not in _WORDS}, "mechanisms": lines}
