"""Training by several processes: each sums the gradients of its own rows, one of them adds the noise, once.

Integer sums are added by ``torch.distributed`` exactly, in any order, so the noisy sum has the law that one process
with all the rows would give it. A process that fails makes the others' next collective call fail, before anything is
released; none of them goes on by itself.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import InputError
from tacit.learn.integer_rows import Integers
from tacit.learn.torch.torch_import import load, torch

Release = Callable[[Integers], NDArray[np.float64]]


class OneProcess:
    """Training by this process alone."""

    def agree(self, plan: str, taken: int, model: Any) -> None:
        """Nothing to agree on."""

    def summed(self, raw: Integers) -> Integers:
        """The sum itself."""
        return raw

    def released(self, raw: Integers, release: Release) -> NDArray[np.float64]:
        """The noisy sum."""
        return release(raw)


class ManyProcesses:
    """Training by all processes of the default group of ``torch.distributed``.

    Rows of one person are held by one process. What the processes send each other is not noisy yet: their network is
    part of what has to be trusted.
    """

    def __init__(self) -> None:
        self._group: Any = load("torch.distributed")
        if not self._group.is_available() or not self._group.is_initialized():
            raise InputError("processes", "need torch.distributed.init_process_group(…) before the trainer is made")
        self._first = self._group.get_rank() == 0

    def agree(self, plan: str, taken: int, model: Any) -> None:
        """Check that all processes follow one plan, and give all of them the parameters of the first."""
        text = hashlib.sha256(f"{plan} {taken}".encode()).digest()
        own = torch.tensor(list(text), dtype=torch.int64)
        every = [torch.zeros_like(own) for _ in range(self._group.get_world_size())]
        self._group.all_gather(every, own)
        if any(not torch.equal(own, other) for other in every):
            raise InputError("processes", "have different plans or numbers of steps; make all trainers alike")
        with torch.no_grad():
            for tensor in (*model.parameters(), *model.buffers()):
                self._group.broadcast(tensor, 0)

    def summed(self, raw: Integers) -> Integers:
        """The sum over all processes, exactly."""
        total = torch.from_numpy(raw)
        self._group.all_reduce(total)
        added: Integers = total.numpy()
        return added

    def released(self, raw: Integers, release: Release) -> NDArray[np.float64]:
        """The noisy sum that the first process made, in every process."""
        noisy = torch.from_numpy(release(raw)) if self._first else torch.zeros(len(raw), dtype=torch.float64)
        self._group.broadcast(noisy, 0)
        found: NDArray[np.float64] = noisy.numpy()
        return found


Processes = OneProcess | ManyProcesses
