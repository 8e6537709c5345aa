"""Context of questions: that of paid work, with recent plans."""

from __future__ import annotations

from dataclasses import dataclass, field

from tacit.charges.payment import CuratorContext
from tacit.curator.planner import Planner


@dataclass(frozen=True)
class QuestionContext(CuratorContext):
    """Everything that answering needs."""

    plans: Planner = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "plans", Planner(self.sizes, self.accounts, self.engine))
