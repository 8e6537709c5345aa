"""Selection among trained networks with every run accounted for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tacit.accounting.compose import compose
from tacit.accounting.composition_plan import Composed
from tacit.core.errors import InputError
from tacit.core.events import ComposedEvent, Event
from tacit.core.numbers import Number
from tacit.core.relations import ADD_REMOVE
from tacit.learn.torch.examples import Examples, Layout
from tacit.learn.torch.randomness import RowRandomness
from tacit.learn.torch.recorded_pass import without_dropout
from tacit.learn.torch.torch_import import Tensor, load, torch
from tacit.learn.torch.trainer import PrivateTrainer
from tacit.mechanisms.permute_and_flip import PermuteAndFlip
from tacit.noise import entropy


@dataclass(frozen=True)
class NetworkSelection:
    """Chosen trainer, its index among the candidates, and guarantee and event of all runs and of the choice."""

    best: PrivateTrainer
    place: int
    guarantee: Composed
    event: Event


def select(
    trainers: Sequence[PrivateTrainer], *data: Any, holdout: tuple[Any, Any], epsilon: Number, micro_batch: int = 256
) -> NetworkSelection:
    """Train every candidate, and privately choose one with a high accuracy on holdout rows.

    Args:
        trainers: the candidates; each takes all its remaining steps.
        data: the training rows, as for :meth:`PrivateTrainer.fit`.
        holdout: features and classes to choose by. They may be training rows; separate rows make the choice better.
        epsilon: ε of the choice alone, in addition to the cost of each candidate.
        micro_batch: number of holdout rows per pass.

    Privacy:
        the composition of all candidates' steps and of the choice, at the largest δ among the candidates, for all
        candidates and the choice together. Each holdout row adds at most one to each candidate's number of correct
        predictions, and permute-and-flip chooses among these numbers.

    Assumes:
        what :class:`PrivateTrainer` assumes.

    References:
        McKenna, Sheldon (2020) for permute-and-flip.
    """
    if not trainers:
        raise InputError("trainers", "must hold at least one PrivateTrainer")
    relation = trainers[0].relation
    if any(trainer.relation is not relation for trainer in trainers):
        raise InputError("trainers", "must all use the same relation")
    if len({id(trainer.model) for trainer in trainers}) < len(trainers):
        raise InputError("trainers", "share a model; each needs one of its own")
    # Rows may favour different candidates, but adding a row never lowers a number of correct predictions: monotone.
    choice = PermuteAndFlip(epsilon=epsilon, sensitivity=1, monotone=relation is ADD_REMOVE, relation=relation)
    held = Examples(holdout)
    for trainer in trainers:
        if trainer.taken < trainer.steps:
            trainer.fit(*data)
    place = int(choice.release([_right(trainer.model, held, micro_batch) for trainer in trainers]))
    events = (*(trainer.event_ for trainer in trainers), choice.event)
    total = compose(list(events), delta=max(trainer.delta for trainer in trainers), method="best")
    return NetworkSelection(trainers[place], place, total, ComposedEvent(events, relation=relation))


def _right(model: Any, held: Examples, size: int) -> int:
    """Return the number of correct predictions on the holdout rows; a row on which the model raises is incorrect."""
    device = next(model.parameters()).device

    def one(features: Tensor, key: Tensor) -> Tensor:
        with RowRandomness(key):
            return model(features.unsqueeze(0))[0]

    def hits(taken: Tensor, features: Tensor, classes: Tensor, keys: Tensor) -> int:
        try:
            outputs = load("torch.func").vmap(one, randomness="error")(features.to(device), keys.to(device))
            return int((outputs.argmax(dim=1)[taken] == classes.to(device)[taken]).sum())
        except Exception:
            return sum(hits(place, features, classes, keys) for place in taken.split(1)) if len(taken) > 1 else 0

    keys = torch.from_numpy(entropy.current().words(len(held)).view(np.int64))
    with without_dropout(model), torch.no_grad():
        batches = held.batches(np.arange(len(held)), Layout(size, tight=True), keys)
        return sum(hits(taken, batch[0], batch[1], own) for taken, batch, own in batches)
