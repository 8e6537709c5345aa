"""Per-example gradients of stacks of linear layers without materialising them.

In a linear layer the gradient of one example is an outer product δ ⊗ (a, 1) of what came back through the layer and
what went in. So its norm is a product of norms, both factors can be put on integer grids by themselves, and the sum
over examples is a product of two integer matrices, exact in float64. No array has a number per example *and*
parameter. ``gradients.proof.md`` has the argument.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from tacit.learn.torch.batch_position_check import settle
from tacit.learn.torch.examples import Examples
from tacit.learn.torch.gradients import LONGEST, SLACK, STEPS, RowSums
from tacit.learn.torch.layout import Layout
from tacit.learn.torch.parameters import Parameters
from tacit.learn.torch.randomness import RowRandomness, drop_by_row, made_up_keys
from tacit.learn.torch.torch_import import Tensor, load, torch

__all__ = ["Stack", "is_stack"]

#: Steps of the grid of what goes into a layer, per unit.
_INPUTS: Final = 1 << 12
#: Steps of the grid of what comes back, per unit of the clip.
_RETURNS: Final = STEPS // _INPUTS

_POINTWISE = (
    "ReLU", "LeakyReLU", "ELU", "SELU", "CELU", "GELU", "SiLU", "Mish", "Softplus", "Softsign", "Tanh", "Sigmoid",
    "Hardtanh", "Hardswish", "Hardsigmoid", "ReLU6", "Identity", "Dropout", "Flatten",
)  # fmt: skip


def is_stack(model: Any, names: list[str]) -> bool:
    """Whether a model is a plain sequence of linear and pointwise layers, all of whose parameters are trained."""
    nn = torch.nn
    if type(model) is not nn.Sequential or sorted(names) != sorted(name for name, _ in model.named_parameters()):
        return False
    layers, pointwise = list(model), tuple(getattr(nn, name) for name in _POINTWISE)
    return (
        _each_once(layers)
        and all(type(layer) is nn.Linear or (type(layer) in pointwise and _keeps_rows(layer)) for layer in layers)
        and not any(_hooked(layer) for layer in (model, *layers))
    )


def _each_once(layers: list[Any]) -> bool:
    """Whether no layer and no parameter is used twice: its gradient would be two outer products."""
    parts = [*layers, *(parameter for layer in layers for parameter in layer.parameters())]
    return len({id(part) for part in parts}) == len(parts)


def _keeps_rows(layer: Any) -> bool:
    """Whether rows stay rows, and what came out of the layer before is not overwritten."""
    if type(layer) is torch.nn.Flatten:
        return bool(layer.start_dim == 1 and layer.end_dim == -1)
    return not getattr(layer, "inplace", False)


def _hooked(layer: Any) -> bool:
    return bool(layer._forward_hooks or layer._forward_pre_hooks or layer._backward_hooks)


class Stack(RowSums):
    """The gradients of a stack of linear layers.

    Args:
        parameters: what is trained: all of the stack.
        loss: of the model's output and the targets, for a batch of one.
        clip: the norm that gradients are shortened to.
        micro_batch: how many examples are looked at together.
    """

    def __init__(self, parameters: Parameters, loss: Callable[..., Any], clip: float, micro_batch: int) -> None:
        self._parameters, self._given, self._loss, self._clip = parameters, loss, _summed(loss), clip
        self.layout = Layout(micro_batch, tight=False)

    def prepare(self, examples: Examples, usual: int) -> None:
        """See the base class."""
        kept = (self._parameters.model, self._given)
        self.layout = settle(self._flat_factors, kept, examples, self.layout.size, usual)

    def fits(self, examples: Examples) -> bool:
        """Whether every linear layer sees one vector per example; otherwise its gradient is no outer product."""
        rows = examples.made_up(2)
        try:
            return rows is None or self.factors(rows, made_up_keys(2)) is not None
        except Exception:
            return False

    def summed(self, taken: Tensor, batch: tuple[Tensor, ...], keys: Tensor) -> Tensor:
        """See the base class."""
        parts = []
        for layer, (inputs, returns) in zip(self._linear(), self.integers(batch, keys), strict=True):
            # Sums of integers far below 2⁵³: exact in float64, in any order.
            product = returns[taken].T @ inputs[taken]
            parts += [product[:, : layer.in_features].reshape(-1), product[:, layer.in_features :].reshape(-1)]
        return torch.cat(parts).to(torch.int64)

    def integers(self, batch: tuple[Tensor, ...], keys: Tensor) -> list[tuple[Tensor, Tensor]]:
        """For each layer the two factors, as whole float64; one example's products have a norm of at most STEPS."""
        factors = self.factors(batch, keys)
        assert factors is not None  # noqa: S101 - fits() was asked before
        norms = torch.sqrt(sum(_squares(inputs) * _squares(returns) for inputs, returns in factors))
        aim = _RETURNS * (1 - SLACK) / norms.clamp(min=self._clip)
        whole = [((inputs * _INPUTS).trunc_(), (returns * aim[:, None]).trunc_()) for inputs, returns in factors]
        square = sum(_squares(inputs) * _squares(returns) for inputs, returns in whole)
        short = (square <= LONGEST) & torch.isfinite(norms)
        keep = short[:, None]
        return [(torch.where(keep, inputs, 0.0), torch.where(keep, returns, 0.0)) for inputs, returns in whole]

    def factors(self, batch: tuple[Tensor, ...], keys: Tensor) -> list[tuple[Tensor, Tensor]] | None:
        """Input of each linear layer, with a 1 for the bias, and the gradient at its output, in float64."""
        features, *targets = (each.to(self._parameters.device) for each in batch)
        keys, draws = keys.to(self._parameters.device), 0
        went_in, came_out = [], []
        with torch.enable_grad():
            here = features
            for layer in self._parameters.model:
                if type(layer) is torch.nn.Linear:
                    if here.dim() != 2:
                        return None
                    went_in.append(here.detach())
                    bias = None if layer.bias is None else layer.bias.detach()
                    here = torch.nn.functional.linear(here, layer.weight.detach(), bias)
                    came_out.append(here if here.requires_grad else here.requires_grad_())
                    here = came_out[-1]
                elif type(layer) is torch.nn.Dropout:
                    here = drop_by_row(here, keys, layer.p, draws) if layer.training else here
                    draws += 1
                else:
                    here = layer(here)
            returns = torch.autograd.grad(self._loss(keys, here, *targets), came_out)
        layers = zip(self._linear(), went_in, returns, strict=True)
        return [(_with_one(inputs.double(), layer), back.double()) for layer, inputs, back in layers]

    def _linear(self) -> list[Any]:
        return [layer for layer in self._parameters.model if type(layer) is torch.nn.Linear]

    def _flat_factors(self, rows: tuple[Tensor, ...], keys: Tensor) -> tuple[Tensor, ...]:
        return tuple(each for pair in self.factors(rows, keys) or () for each in pair)


def _with_one(inputs: Tensor, layer: Any) -> Tensor:
    return inputs if layer.bias is None else torch.nn.functional.pad(inputs, (0, 1), value=1.0)


def _squares(rows: Tensor) -> Tensor:
    return rows.square().sum(1)


def _summed(loss: Any) -> Callable[..., Any]:
    """The sum over a batch of the loss of each example by itself, from keys, output and targets."""
    if type(loss) is torch.nn.CrossEntropyLoss:
        # A shorter equal form: the mean over a batch of one is the sum, each class with its weight.
        total = partial(
            torch.nn.functional.cross_entropy,
            weight=loss.weight,
            ignore_index=loss.ignore_index,
            label_smoothing=loss.label_smoothing,
            reduction="sum",
        )
        return lambda _, *batch: total(*batch)

    def one(key: Tensor, *row: Tensor) -> Tensor:
        with RowRandomness(key):
            return loss(*(each.unsqueeze(0) for each in row)).sum()

    each = load("torch.func").vmap(one)
    return lambda keys, *batch: each(keys, *batch).sum()
