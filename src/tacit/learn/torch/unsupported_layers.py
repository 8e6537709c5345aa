"""Layers that cannot be trained privately, and their replacements.

Most of these would void a guarantee without a word elsewhere: layers that let one example change another's gradient,
batches of a fixed size that are accounted for as if they were sampled, samplers with rates of their own, optimizers
that ask for the loss again.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tacit.core.errors import InputError
from tacit.learn.torch.torch_import import torch

_BATCH_NORMS = (torch.nn.BatchNorm1d, torch.nn.BatchNorm2d, torch.nn.BatchNorm3d, torch.nn.SyncBatchNorm)
_REMEDY = "use torch.nn.GroupNorm(…) or torch.nn.LayerNorm(…) instead"


def check_model(model: Any, optimizer: Any) -> None:
    """Refuse models whose layers mix examples, and whatever has a privacy mechanism of its own."""
    if not isinstance(model, torch.nn.Module):
        raise InputError("model", f"must be a torch.nn.Module, not {type(model).__name__}")
    if not isinstance(optimizer, torch.optim.Optimizer):
        raise InputError("optimizer", f"must be a torch.optim.Optimizer, not {type(optimizer).__name__}")
    for name, thing in (("model", model), ("optimizer", optimizer)):
        if type(thing).__module__.partition(".")[0] == "opacus":
            raise InputError(name, "is wrapped by Opacus already; give the plain one, which Tacit clips and noises")
    if isinstance(optimizer, torch.optim.LBFGS):
        raise InputError("optimizer", "LBFGS reads the loss several times per step; use SGD or Adam")
    for path, layer in model.named_modules():
        problem = _mixes(layer)
        if problem:
            raise InputError("model", f"layer {path or 'at the top'} ({type(layer).__name__}) {problem}; {_REMEDY}")
        if getattr(layer, "max_norm", None) is not None:
            raise InputError(
                "model",
                f"layer {path or 'at the top'} ({type(layer).__name__}) has max_norm: the words of a row shorten "
                "weights without noise; leave it out",
            )
        if isinstance(layer, torch.nn.RNNBase) and layer.dropout:
            raise InputError(
                "model",
                f"layer {path or 'at the top'} ({type(layer).__name__}) draws masks that follow a row's place in the "
                "batch; set its dropout to 0 and put torch.nn.Dropout(…) between layers",
            )


def checked_scheduler(scheduler: Any) -> Any:
    """A scheduler of learning rates, or None; refuse one that wants to see a loss."""
    plateau = isinstance(scheduler, torch.optim.lr_scheduler.ReduceLROnPlateau)
    if scheduler is not None and (plateau or not callable(getattr(scheduler, "step", None))):
        raise InputError("scheduler", "must move on by step() alone; ReduceLROnPlateau asks for a loss, which costs")
    return scheduler


def _mixes(layer: Any) -> str:
    """Reason why one example would reach another's gradient through this layer, or nothing."""
    if isinstance(layer, _BATCH_NORMS):
        return "normalises each example by the others in its batch"
    if getattr(layer, "track_running_stats", False):
        return "keeps statistics of the examples it saw"
    return ""


def trained_parameters(model: Any, optimizer: Any) -> dict[str, Any]:
    """The parameters that training changes, by name; all must belong to the model and none be missing."""
    named = {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}
    known = {id(parameter) for parameter in named.values()}
    given = {id(parameter) for group in optimizer.param_groups for parameter in group["params"]}
    if not given <= known:
        raise InputError("optimizer", "holds parameters that are not trainable ones of the model")
    chosen = {name: parameter for name, parameter in named.items() if id(parameter) in given}
    if not chosen:
        raise InputError("optimizer", "holds no parameter of the model; write torch.optim.SGD(model.parameters(), …)")
    if not all(parameter.is_floating_point() for parameter in chosen.values()):
        raise InputError("model", "has trainable parameters that are not real numbers")
    return chosen


def check_data(data: tuple[Any, ...]) -> None:
    """Refuse loaders and samplers: the trainer draws the rows of a step, or the account would be of another run."""
    if not data:
        raise InputError("data", "is missing; write fit(X, y) with tensors, or fit(dataset)")
    for each in data:
        if isinstance(each, np.ma.MaskedArray) or hasattr(each, "iloc"):
            raise InputError("data", f"is a {type(each).__name__}; give tensors or arrays without gaps")
        if isinstance(each, torch.utils.data.DataLoader):
            raise InputError(
                "data",
                "is a DataLoader, whose batches are not Poisson samples; give what it reads, "
                "fit(loader.dataset, workers=…): the trainer draws the rows of every step itself",
            )
        if isinstance(each, torch.utils.data.Sampler):
            raise InputError("data", "is a sampler; the trainer draws its own samples, give the tensors or the dataset")
        if isinstance(each, torch.utils.data.IterableDataset):
            raise InputError("data", "can only be read in order; a sample needs a dataset with len() and an index")
