"""Random layers with independent random numbers per row.

PyTorch draws one stream of random numbers for a whole batch, so that a row's dropout mask depends on its place:
removing a row would change the masks of all later rows. Here each row has one key per step, drawn from Tacit's entropy,
and the random numbers of a layer for a row are a function of that row's key, of the number of earlier draws in the same
pass, and of the place *within* the row. Adding or removing a row does not change the masks of the remaining rows.

The function is a mixer of 64-bit words (splitmix64). Privacy does not rest on its quality: the bound on the
contribution of one row holds for every mask.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import cache
from types import FunctionType
from typing import Any, Final

from tacit.core.errors import InputError
from tacit.learn.torch.exact_sums import LayerTaps
from tacit.learn.torch.torch_import import Tensor, load, torch

functional = load("torch.nn.functional")
_Mode: Any = load("torch.overrides").TorchFunctionMode
#: Largest number of words of one draw.
_ROOM: Final = 1 << 40
_SIXTY_FOUR: Final = 1 << 64
_SELU_SCALE: Final = -1.7580993408473766


def _signed(word: int) -> int:
    word %= _SIXTY_FOUR
    return word - _SIXTY_FOUR if word >> 63 else word


_GOLDEN: Final = _signed(0x9E3779B97F4A7C15)
_FIRST: Final = _signed(0xBF58476D1CE4E5B9)
_SECOND: Final = _signed(0x94D049BB133111EB)


def mixed(words: Tensor) -> Tensor:
    """Mix each 64-bit word individually (splitmix64); products wrap around."""
    words = (words ^ _shifted(words, 30)) * _FIRST
    words = (words ^ _shifted(words, 27)) * _SECOND
    return words ^ _shifted(words, 31)


def _shifted(words: Tensor, places: int) -> Tensor:
    """Shift right logically, filling with zeros."""
    return (words >> places) & ((1 << (64 - places)) - 1)


def made_up_keys(size: int) -> Tensor:
    """Return public keys, to test a model before any data is read."""
    return mixed(torch.arange(1, size + 1, dtype=torch.int64))


class RowRandomness(_Mode):  # type: ignore[misc]
    """Context in which random functions of PyTorch draw from the key of one row.

    Args:
        key: key of the row, one word; inside of ``vmap`` each lane has the key of its row.
        taps: taps of layers whose inputs are stored; none by default.
    """

    def __init__(self, key: Tensor, taps: LayerTaps | None = None) -> None:
        super().__init__()
        self._key, self._taps, self._draws = key, taps, 0

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Replace random functions, and losses with class weights; call any other function unchanged."""
        named = dict(kwargs or {})
        if "input" in named:
            args = (named.pop("input"), *args)
        if named.get("generator") is not None:
            raise InputError(
                "model", "draws from a generator of its own; leave generator out, so that rows have theirs"
            )
        tapped = None if self._taps is None else self._taps.call(func, args, named)
        if tapped is not None:
            return tapped
        own = _OWN.get(func)
        if own is not None:
            if "train" in named:
                named["training"] = named.pop("train")
            return own(self, *args, **named)
        name = getattr(func, "__name__", "")
        if func in _REFUSED or name in _IN_PLACE:
            raise InputError(
                "model",
                f"calls {name}, whose random numbers cannot be tied to one row; use dropout, torch.rand, "
                "torch.rand_like, torch.randn, torch.randn_like, torch.randint or torch.bernoulli",
            )
        inner = _opened(func)
        if inner is None:
            return func(*args, **named)
        with self:
            return inner(*args, **named)

    def words(self, shape: tuple[int, ...], device: Any = None) -> Tensor:
        """Return a tensor of random 64-bit words of this shape."""
        count = math.prod(shape)
        start = _signed(self._draws * _ROOM * 0x9E3779B97F4A7C15)
        self._draws += 1
        places = torch.arange(1, count + 1, dtype=torch.int64, device=device or self._key.device) * _GOLDEN + start
        return mixed(mixed(places + self._key) ^ self._key).reshape(shape)

    def uniform(self, shape: tuple[int, ...], like: Tensor | None = None, **kind: Any) -> Tensor:
        """Return uniform random numbers in [0, 1)."""
        device = kind.get("device") if like is None else like.device
        dtype = kind.get("dtype") or (like.dtype if like is not None else torch.get_default_dtype())
        # 24 bits are exact in a float32, and none of them rounds to 1.
        bits = 53 if dtype == torch.float64 else 24 if dtype == torch.float32 else 8
        return (_shifted(self.words(shape, device), 64 - bits).double() * 2.0**-bits).to(dtype)

    def mask(self, like: Tensor, shape: tuple[int, ...], p: float) -> Tensor:
        """Return a tensor of 1 with probability 1 - p, otherwise 0."""
        coins = _shifted(self.words(shape, like.device), 11).double() * 2.0**-53
        return (coins >= p).to(like.dtype)


@cache
def _opened(func: Any) -> Any:
    """Return a copy of a Python function of PyTorch, such as attention, to run under the mode; None for any other.

    A mode does not see the calls inside of a call that it handles. So the body is run with the mode entered again, in
    a copy that does not dispatch itself to the mode a second time.
    """
    # Functions that dispatch on an argument, such as max_pool2d, have their code in another file.
    code = getattr(func, "__code__", None)
    if not isinstance(func, FunctionType) or code is None or code.co_filename != functional.__file__:
        return None
    blind = dict.fromkeys(("has_torch_function", "has_torch_function_unary", "has_torch_function_variadic"), _never)
    opened = FunctionType(func.__code__, func.__globals__ | blind, func.__name__, func.__defaults__, func.__closure__)
    opened.__kwdefaults__ = func.__kwdefaults__
    return opened


def _never(*_: Any) -> bool:
    return False


def _shape(size: tuple[Any, ...]) -> tuple[int, ...]:
    return tuple(size[0]) if len(size) == 1 and not isinstance(size[0], int) else tuple(size)


def _rand(rows: RowRandomness, *size: Any, **kind: Any) -> Tensor:
    return rows.uniform(_shape(size or (kind.pop("size"),)), **kind)


def _rand_like(rows: RowRandomness, like: Tensor, **kind: Any) -> Tensor:
    return rows.uniform(tuple(like.shape), like, **kind)


def _normal(rows: RowRandomness, shape: tuple[int, ...], like: Tensor | None = None, **kind: Any) -> Tensor:
    """Return standard normal numbers, by the Box-Muller transform."""
    radius = torch.sqrt(-2 * torch.log(1 - rows.uniform(shape, like, **kind)))
    return radius * torch.cos(2 * math.pi * rows.uniform(shape, like, **kind))


def _randn(rows: RowRandomness, *size: Any, **kind: Any) -> Tensor:
    return _normal(rows, _shape(size or (kind.pop("size"),)), **kind)


def _randn_like(rows: RowRandomness, like: Tensor, **kind: Any) -> Tensor:
    return _normal(rows, tuple(like.shape), like, **kind)


def _randint(rows: RowRandomness, *args: Any, **kind: Any) -> Tensor:
    given = [*args]
    shape = tuple(kind["size"] if "size" in kind else given.pop())
    low, high = given if len(given) == 2 else (kind.get("low", 0), given[0] if given else kind["high"])
    return (low + _shifted(rows.words(shape, kind.get("device")), 1) % (high - low)).to(
        kind.get("dtype") or torch.int64
    )


def _bernoulli(rows: RowRandomness, values: Tensor, p: float | None = None, **_: Any) -> Tensor:
    chance = values if p is None else torch.full_like(values, p)
    return (_shifted(rows.words(tuple(values.shape), values.device), 11).double() * 2.0**-53 < chance).to(values.dtype)


def _dropout(
    rows: RowRandomness, values: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Tensor:
    del inplace
    return _masked(rows, values, tuple(values.shape), p) if training else values


def _channels(spatial: int | None) -> Callable[..., Tensor]:
    """Return dropout of whole channels; ``spatial`` is the number of dimensions after the channels, if fixed."""

    def drop(
        rows: RowRandomness, values: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
    ) -> Tensor:
        del inplace
        if not training:
            return values
        after = values.dim() - 2 if spatial is None else spatial
        shape = (*values.shape[: values.dim() - after], *(1,) * after)
        return _masked(rows, values, shape, p)

    return drop


def _masked(rows: RowRandomness, values: Tensor, shape: tuple[int, ...], p: float) -> Tensor:
    if not 0 <= p < 1:
        return values * 0
    return values * (rows.mask(values, shape, p) / (1 - p))


def _alpha(whole_channels: bool) -> Callable[..., Tensor]:
    """Return alpha dropout, which keeps mean and variance: dropped values become SELU's lowest value."""

    def drop(
        rows: RowRandomness, values: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False
    ) -> Tensor:
        del inplace
        if not training or p == 0:
            return values
        if p >= 1:
            return values * 0
        after = values.dim() - 2 if whole_channels else 0
        kept = rows.mask(values, (*values.shape[: values.dim() - after], *(1,) * after), p)
        scale = ((1 - p) * (1 + p * _SELU_SCALE**2)) ** -0.5
        return scale * (values * kept + _SELU_SCALE * (1 - kept) - (_SELU_SCALE * p))

    return drop


def _rrelu(
    rows: RowRandomness,
    values: Tensor,
    lower: float = 1 / 8,
    upper: float = 1 / 3,
    training: bool = False,
    inplace: bool = False,
    **_: Any,
) -> Tensor:
    del inplace
    slope = lower + (upper - lower) * rows.uniform(tuple(values.shape), values) if training else (lower + upper) / 2
    return torch.where(values >= 0, values, values * slope)


def _attention(
    rows: RowRandomness,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    **more: Any,
) -> Tensor:
    """Compute attention; PyTorch's function draws dropout per batch, and runs row by row inside of ``vmap``."""
    if more.pop("enable_gqa", False):
        key, value = (each.repeat_interleave(query.shape[-3] // each.shape[-3], -3) for each in (key, value))
    if more:
        raise InputError("model", f"calls attention with {', '.join(sorted(more))}, which is not known here")
    scores = query @ key.transpose(-2, -1) * (1 / math.sqrt(query.shape[-1]) if scale is None else scale)
    if is_causal:
        attn_mask = torch.ones(query.shape[-2], key.shape[-2], dtype=torch.bool, device=query.device).tril()
    if attn_mask is not None:
        scores = scores.masked_fill(~attn_mask, -math.inf) if attn_mask.dtype == torch.bool else scores + attn_mask
    weights = torch.softmax(scores, dim=-1)
    return (_masked(rows, weights, tuple(scores.shape), dropout_p) if dropout_p else weights) @ value


def _by_classes(loss: Any) -> Callable[..., Tensor]:
    """Return the loss of one row with class weights.

    PyTorch divides the weighted sum of a batch by the sum of its weights. In a batch of one that cancels the weight,
    so here it is divided by the number of targets that are not ignored.
    """

    def weighted(
        _: RowRandomness, values: Tensor, target: Tensor, weight: Tensor | None = None, **options: Any
    ) -> Tensor:
        reduced = options.get("reduction", "mean") == "mean" and not any(
            options.get(old) is not None for old in ("reduce", "size_average")
        )
        if weight is None or not reduced or target.is_floating_point():
            return loss(values, target, weight=weight, **options)
        counted = (target != options.get("ignore_index", -100)).sum().clamp(min=1)
        return loss(values, target, weight=weight, **(options | {"reduction": "sum"})) / counted

    return weighted


def _binary(loss: Any) -> Callable[..., Tensor]:
    """Return a binary loss that refuses weights of rows; weights of outputs are allowed."""

    def checked(
        _: RowRandomness, values: Tensor, target: Tensor, weight: Tensor | None = None, *args: Any, **options: Any
    ) -> Tensor:
        if weight is not None and tuple(torch.broadcast_shapes(weight.shape, values.shape)) != tuple(values.shape):
            raise InputError("loss", "has a weight for each place of a batch, and rows have no place; weigh outputs")
        return loss(values, target, weight, *args, **options)

    return checked


_OWN: dict[Any, Callable[..., Tensor]] = {
    functional.dropout: _dropout,
    torch.dropout: _dropout,
    torch.dropout_: _dropout,
    functional.dropout1d: _channels(1),
    functional.dropout2d: _channels(None),
    functional.dropout3d: _channels(None),
    torch.feature_dropout: _channels(None),
    torch.feature_dropout_: _channels(None),
    functional.alpha_dropout: _alpha(False),
    torch.alpha_dropout: _alpha(False),
    torch.alpha_dropout_: _alpha(False),
    functional.feature_alpha_dropout: _alpha(True),
    torch.feature_alpha_dropout: _alpha(True),
    torch.feature_alpha_dropout_: _alpha(True),
    functional.rrelu: _rrelu,
    torch.rrelu: _rrelu,
    torch.rrelu_: _rrelu,
    functional.scaled_dot_product_attention: _attention,
    torch.rand: _rand,
    torch.rand_like: _rand_like,
    torch.randn: _randn,
    torch.randn_like: _randn_like,
    torch.randint: _randint,
    torch.bernoulli: _bernoulli,
    torch.Tensor.bernoulli: _bernoulli,
    functional.binary_cross_entropy: _binary(functional.binary_cross_entropy),
    functional.binary_cross_entropy_with_logits: _binary(functional.binary_cross_entropy_with_logits),
    functional.cross_entropy: _by_classes(functional.cross_entropy),
    functional.nll_loss: _by_classes(functional.nll_loss),
}
_REFUSED = {
    torch.randperm,
    torch.multinomial,
    torch.Tensor.multinomial,
    torch.normal,
    torch.poisson,
    torch.randint_like,
}
_IN_PLACE = {
    "bernoulli_", "uniform_", "normal_", "exponential_", "geometric_", "cauchy_", "log_normal_", "random_",
}  # fmt: skip
