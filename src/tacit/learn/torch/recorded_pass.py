"""Passes over made-up rows: whether places in a micro-batch matter, and the operations of a pass to be replayed.

``torch.func`` keeps rows apart by construction, at the price of tracing the program anew in every pass. Micro-batches
have one shape, and inside of ``vmap`` no branch can depend on a row's values, so every pass consists of the same
operations: they are recorded once, and replaying them gives the same bits. A setting of a layer that changes is seen
(:func:`program_settings`), and from time to time a replay on made-up rows is compared with a pass by ``torch.func``,
bit for bit. Where recording fails or is not available passes are as before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from tacit.core.errors import InputError
from tacit.learn.torch.examples import KINDS, Examples, Layout
from tacit.learn.torch.randomness import made_up_keys
from tacit.learn.torch.torch_import import Tensor, load, torch

#: From a micro-batch of examples and their keys to what is computed of each: tensors, one row per example.
Looked = Callable[[tuple[Tensor, ...], Tensor], tuple[Tensor, ...]]


def settle(look: Looked, kept: tuple[Any, ...], examples: Examples, size: int, usual: int) -> Layout:
    """Tight batches of ``size`` if places do not matter in them, else scattered ones for samples of ``usual`` rows.

    Args:
        look: computes what is looked at.
        kept: the network and the loss, whose buffers must stay as they are.
        examples: whose form made-up rows have.
        size: of a micro-batch.
        usual: how many rows a sample has.

    Raises:
        InputError: the network cannot be differentiated row by row, remembers earlier passes, or is random in a way
            that cannot be tied to a row. All of it shows on made-up rows, so the refusal says nothing about data.
    """
    rows = _rows_it_takes(look, examples, size)
    if rows is None or _same_everywhere(look, kept, rows, size):
        return Layout(size, tight=True)
    # Four rows to a place on average: longer queues waste less room, wider batches save calls.
    return Layout(min(size, max(usual // 4, 1)), tight=False)


def _rows_it_takes(look: Looked, examples: Examples, size: int) -> tuple[Tensor, ...] | None:
    """The first kind of made-up rows that network and loss can take."""
    for kind in range(KINDS):
        rows = examples.made_up(size, kind)
        if rows is None:
            return None
        try:
            look(rows, made_up_keys(size))
        except InputError:
            raise
        except Exception as problem:
            if kind == KINDS - 1:
                said = f"{type(problem).__name__}: {problem}"
                raise InputError("model", f"cannot take rows of this shape and type, made-up ones; {said}") from problem
        else:
            return rows
    return None


def _same_everywhere(look: Looked, kept: tuple[Any, ...], rows: tuple[Tensor, ...], size: int) -> bool:
    """Whether rows give the same results, bit for bit, wherever they stand."""
    keys, before = made_up_keys(size), {name: buffer.clone() for name, buffer in _buffers(kept).items()}
    first = look(rows, keys)
    for name, buffer in _buffers(kept).items():
        if name not in before or not torch.equal(buffer, before[name]):
            raise InputError("model", f"changes its buffer {name} in every pass, and so counts batches or keeps rows")
    if not _alike(first, look(rows, keys), 0):
        raise InputError(
            "model",
            "gives other gradients for the same rows at the second time: it remembers, or draws random numbers that "
            "PyTorch does not know of; use torch.nn.Dropout or torch.rand",
        )
    shifts = {1, 3, size // 2, size - 1} if size > 1 else ()
    return all(
        _alike(first, look(tuple(each.roll(shift, 0) for each in rows), keys.roll(shift, 0)), shift) for shift in shifts
    )


def _buffers(kept: tuple[Any, ...]) -> dict[str, Tensor]:
    """Buffers that a network, and a loss that is a module, carry from one pass to the next."""
    return {name: each for one in kept if isinstance(one, torch.nn.Module) for name, each in one.named_buffers()}


def _alike(first: tuple[Tensor, ...], moved: tuple[Tensor, ...], shift: int) -> bool:
    """Whether rows that were moved by so many places gave the same bits; compared in place, without copies."""
    return all(
        same_values(one[: len(one) - shift], other[shift:]) and same_values(one[len(one) - shift :], other[:shift])
        for one, other in zip(first, moved, strict=True)
    )


def same_values(one: Tensor, other: Tensor) -> bool:
    """Whether two tensors are equal, a NaN counting as equal to a NaN."""
    return bool(torch.equal(one, other) or torch.equal(torch.nan_to_num(one), torch.nan_to_num(other)))


@contextmanager
def without_dropout(model: Any) -> Iterator[None]:
    """The model in evaluation mode for a moment, each layer back to its own mode afterwards."""
    modes = [(layer, layer.training) for layer in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for layer, training in modes:
            layer.training = training


#: From the values of parameters and buffers, rows and their keys to tensors.
Pass = Callable[[dict[str, Tensor], tuple[Tensor, ...], Tensor], list[Tensor]]

#: Types that most settings have: they stand for themselves. A float may be no number, which equals nothing.
_UNCHANGED: Final = frozenset({type(None), bool, int, str})
#: Operations on constants and classes that losses repeat; none of them is random.
_SHARED: Final = frozenset(
    getattr(torch.ops.aten, name) for name in ("ne", "scalar_tensor", "where", "unsqueeze", "zeros", "ones")
)
#: Steps between two comparisons with a pass by ``torch.func``.
_BETWEEN: Final = 256


class RecordedPass:
    """The operations of a pass over rows of one shape.

    Args:
        whole: the pass by ``torch.func``.
        run: the recorded operations, from values, rows and keys in a row.
        made_up: makes the rows that were recorded; they are not kept, since they are seldom needed.
        program: settings that decided which operations there are.
        writes: whether some operation overwrites a tensor, so that values are to be given as copies.
    """

    def __init__(
        self,
        whole: Pass,
        run: Callable[..., list[Tensor]],
        made_up: Callable[[], tuple[Tensor, ...]],
        program: tuple[Any, ...],
        *,
        writes: bool,
    ) -> None:
        self._whole, self._run, self._program = whole, run, program
        self._steps = 0
        self._made_up, self.writes = made_up, writes

    @classmethod
    def of(
        cls,
        whole: Pass,
        values: dict[str, Tensor],
        made_up: Callable[[], tuple[Tensor, ...]],
        program: Callable[[], tuple[Any, ...]],
    ) -> RecordedPass | None:
        """The recorded pass, or None where it cannot be recorded or replays to other bits; rows are made up."""
        names, count = list(values), len(values)

        def flat(*tensors: Tensor) -> list[Tensor]:
            return whole(dict(zip(names, tensors[:count], strict=True)), tensors[count:-1], tensors[-1])

        try:
            rows = made_up()
            recorded = load("torch.fx.experimental.proxy_tensor").make_fx(flat)(
                *(each.clone() for each in values.values()), *rows, _keys(rows)
            )
            del rows
            _drop_zeros(recorded.graph)
            _drop_values(recorded.graph)
            _share_alike(recorded.graph)
            recorded.graph.eliminate_dead_code()
            recorded.recompile()
            writes = any(map(_overwrites, recorded.graph.nodes))
            # A program that changes its own settings while it runs has done so now.
            made = cls(whole, recorded.forward, made_up, program(), writes=writes)
            return made if made.same_bits(values) else None
        except Exception:
            # An experimental part of PyTorch, and any network: what cannot be recorded is run by torch.func.
            return None

    @torch.no_grad()  # type: ignore[untyped-decorator]
    def run(self, values: dict[str, Tensor], rows: tuple[Tensor, ...], keys: Tensor) -> list[Tensor]:
        """The operations on these rows."""
        return self._run(*values.values(), *rows, keys)

    def holds(self, program: tuple[Any, ...], values: Callable[[], dict[str, Tensor]]) -> bool | None:
        """At the beginning of a step: whether the program is still the one recorded; None if it changed unseen.

        Steps are counted, and not batches: when bits are compared does not depend on how many rows a sample has.
        """
        self._steps += 1
        if self._program != program:
            return False
        return True if self._steps % _BETWEEN or self.same_bits(values()) else None

    def same_bits(self, values: dict[str, Tensor]) -> bool:
        """Whether made-up rows give the bits that ``torch.func`` gives."""
        rows = self._made_up()
        keys = _keys(rows)
        # The pass that takes more memory goes first, beside the results of none.
        wanted = self._whole({name: each.clone() for name, each in values.items()}, rows, keys)
        replayed = self.run({name: each.clone() for name, each in values.items()}, rows, keys)
        return len(replayed) == len(wanted) and all(
            one.dtype == other.dtype and same_values(one, other.detach())
            for one, other in zip(replayed, wanted, strict=True)
        )


def program_settings(*parts: Any) -> tuple[Any, ...]:
    """Settings of networks and functions: their layers, the plain attributes of these, and the forms of parameters."""
    settings: list[Any] = []
    for part in parts:
        if not isinstance(part, torch.nn.Module):
            settings.extend(_read_by(part))
            continue
        for layer in part.modules():
            settings.append(id(layer))
            settings.extend((name, _entries(value)) for name, value in vars(layer).items())
        settings.extend(
            (tensor.shape, tensor.dtype, tensor.device, tensor.requires_grad)
            for tensor in (*part.parameters(), *part.buffers())
        )
    return tuple(settings)


def _read_by(function: Any) -> list[Any]:
    """Names that a function sees: from around it, of its module, and attributes of an object that is called."""
    found: list[Any] = [id(function)]
    found.extend((name, _entries(value)) for name, value in getattr(function, "__dict__", {}).items())
    owner = getattr(function, "__self__", None)
    found.extend((name, _entries(value)) for name, value in getattr(owner, "__dict__", {}).items())
    found.extend(_plain(cell.cell_contents) for cell in getattr(function, "__closure__", None) or () if _filled(cell))
    around, code = getattr(function, "__globals__", {}), getattr(function, "__code__", None)
    found.extend(_plain(around[name]) for name in getattr(code, "co_names", ()) if name in around)
    return found


def _entries(value: Any) -> Any:
    """An attribute: of a dictionary, such as that of hooks, all entries."""
    if type(value) in _UNCHANGED:
        return value
    if not isinstance(value, dict):
        return _plain(value)
    return tuple((_plain(key), _plain(each)) for key, each in value.items()) if value else ()


def _plain(value: Any) -> Any:
    """A number, a text, or a tuple or list of such, unchanged; of everything else which object it is."""
    if isinstance(value, float) and value != value:
        return "nan"
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, tuple | list):
        return tuple(_plain(each) for each in value)
    return id(value)


def _filled(cell: Any) -> bool:
    try:
        cell.cell_contents  # noqa: B018 - raises for a cell that is still empty
    except ValueError:
        return False
    return True


def _keys(rows: tuple[Tensor, ...]) -> Tensor:
    return made_up_keys(len(rows[0])).to(rows[0].device)


def _drop_zeros(graph: Any) -> None:
    """Take additions of zeros out, as taps of layers make them."""
    aten = torch.ops.aten
    for node in list(graph.nodes):
        if node.op != "call_function" or node.target is not aten.add.Tensor or len(node.args) != 2:
            continue
        for other, zeros in (node.args, node.args[::-1]):
            if getattr(zeros, "target", None) is aten.zeros.default and _form(other) == _form(node) is not None:
                node.replace_all_uses_with(other)
                break


def _drop_values(graph: Any) -> None:
    """Make ones of a known shape without the values that they were to be like: the loss is then not computed at all."""
    aten = torch.ops.aten
    for node in list(graph.nodes):
        form = _form(node) if node.op == "call_function" and node.target is aten.ones_like.default else None
        if form is not None:
            with graph.inserting_before(node):
                device = node.meta["val"].device
                ones = graph.call_function(aten.ones.default, (list(form[0]),), {"dtype": form[1], "device": device})
            ones.meta = dict(node.meta)
            node.replace_all_uses_with(ones)


def _share_alike(graph: Any) -> None:
    """Compute once what several operations compute alike; only where no operation overwrites a tensor."""
    if any(map(_overwrites, graph.nodes)):
        return
    seen: dict[Any, Any] = {}
    for node in list(graph.nodes):
        if node.op != "call_function" or getattr(node.target, "overloadpacket", None) not in _SHARED:
            continue
        alike = (node.target, repr(node.args), repr(node.kwargs))
        if alike in seen:
            node.replace_all_uses_with(seen[alike])
        else:
            seen[alike] = node


def _form(node: Any) -> Any:
    """Shape and type of what a recorded operation gives, if known."""
    value = getattr(node, "meta", {}).get("val")
    return None if value is None else (tuple(value.shape), value.dtype)


def _overwrites(node: Any) -> bool:
    """Whether an operation writes into one of its arguments, as its declaration says."""
    return node.op == "call_function" and getattr(getattr(node.target, "_schema", None), "is_mutable", False)
