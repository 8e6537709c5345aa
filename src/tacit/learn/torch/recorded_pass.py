"""Passes over made-up rows: whether places in a micro-batch affect results, and recording of a pass's operations.

``torch.func`` separates rows by construction, at the cost of tracing the program in every pass. Micro-batches have one
shape, and inside of ``vmap`` no branch can depend on a row's values, so every pass consists of the same operations:
they are recorded once, and replaying them gives the same bits. Changes of a layer's settings are detected
(:func:`program_settings`), and periodically a replay on made-up rows is compared with a pass by ``torch.func``, bit for
bit. If recording fails or is not available, passes are run by ``torch.func``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from tacit.core.errors import InputError
from tacit.learn.torch.examples import KINDS, Examples, Layout
from tacit.learn.torch.randomness import made_up_keys
from tacit.learn.torch.torch_import import Tensor, load, torch

#: Function from a micro-batch of examples and their keys to tensors of results, with one line per example.
Looked = Callable[[tuple[Tensor, ...], Tensor], tuple[Tensor, ...]]


def settle(look: Looked, kept: tuple[Any, ...], examples: Examples, size: int, usual: int) -> Layout:
    """Return a tight layout if places do not affect results, otherwise a scattered one for samples of ``usual`` rows.

    Args:
        look: function that computes the results to compare.
        kept: the network and the loss, whose buffers must not change.
        examples: examples that determine the form of made-up rows.
        size: number of places of a micro-batch.
        usual: expected number of rows of a sample.

    Raises:
        InputError: the network cannot be differentiated row by row, remembers earlier passes, or draws random numbers
            that cannot be tied to a row. This is found on made-up rows, so the refusal does not depend on data.
    """
    rows = _rows_it_takes(look, examples, size)
    if rows is None or _same_everywhere(look, kept, rows, size):
        return Layout(size, tight=True)
    # Four rows to a place on average: longer queues waste less room, wider batches save calls.
    return Layout(min(size, max(usual // 4, 1)), tight=False)


def _rows_it_takes(look: Looked, examples: Examples, size: int) -> tuple[Tensor, ...] | None:
    """Return the first kind of made-up rows that network and loss accept; None if the form of rows is unknown."""
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
    """Return whether rows give the same results, bit for bit, at all tested places."""
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
    """Return the buffers of all modules in ``kept``, by name."""
    return {name: each for one in kept if isinstance(one, torch.nn.Module) for name, each in one.named_buffers()}


def _alike(first: tuple[Tensor, ...], moved: tuple[Tensor, ...], shift: int) -> bool:
    """Return whether rows moved by ``shift`` places gave the same bits; compared without copies."""
    return all(
        same_values(one[: len(one) - shift], other[shift:]) and same_values(one[len(one) - shift :], other[:shift])
        for one, other in zip(first, moved, strict=True)
    )


def same_values(one: Tensor, other: Tensor) -> bool:
    """Return whether two tensors are equal, where NaN equals NaN."""
    return bool(torch.equal(one, other) or torch.equal(torch.nan_to_num(one), torch.nan_to_num(other)))


@contextmanager
def without_dropout(model: Any) -> Iterator[None]:
    """Set the model to evaluation mode within the context; restore each layer's mode afterwards."""
    modes = [(layer, layer.training) for layer in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for layer, training in modes:
            layer.training = training


#: Function from the values of parameters and buffers, rows and their keys to tensors.
Pass = Callable[[dict[str, Tensor], tuple[Tensor, ...], Tensor], list[Tensor]]

#: Types of settings that are compared directly; not float, because NaN does not equal itself.
_UNCHANGED: Final = frozenset({type(None), bool, int, str})
#: Deterministic operations that losses often repeat, which are computed once.
_SHARED: Final = frozenset(
    getattr(torch.ops.aten, name) for name in ("ne", "scalar_tensor", "where", "unsqueeze", "zeros", "ones")
)
#: Number of steps between two comparisons with a pass by ``torch.func``.
_BETWEEN: Final = 256


class RecordedPass:
    """Recorded operations of a pass over rows of one shape.

    Args:
        whole: pass by ``torch.func``.
        run: function of values, rows and keys, as positional arguments, that runs the recorded operations.
        made_up: function that returns the made-up rows of the recording; they are not stored, since seldom needed.
        program: settings that determined the operations.
        writes: whether some operation overwrites a tensor, so that values must be given as copies.
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
        """Record a pass over made-up rows; return None if that fails or the replay does not give the same bits."""
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
            # The settings are read after a run, because a program may change its settings while it runs.
            made = cls(whole, recorded.forward, made_up, program(), writes=writes)
            return made if made.same_bits(values) else None
        except Exception:
            # Recording is experimental in PyTorch and may fail for any network; passes are then run by torch.func.
            return None

    @torch.no_grad()  # type: ignore[untyped-decorator]
    def run(self, values: dict[str, Tensor], rows: tuple[Tensor, ...], keys: Tensor) -> list[Tensor]:
        return self._run(*values.values(), *rows, keys)

    def holds(self, program: tuple[Any, ...], values: Callable[[], dict[str, Tensor]]) -> bool | None:
        """Return, at the start of a step, whether the program is unchanged; None if it changed undetected by settings.

        Steps are counted, not batches, so that the step of a comparison of bits does not depend on the sample's size.
        """
        self._steps += 1
        if self._program != program:
            return False
        return True if self._steps % _BETWEEN or self.same_bits(values()) else None

    def same_bits(self, values: dict[str, Tensor]) -> bool:
        """Return whether a replay on made-up rows gives the bits of a pass by ``torch.func``."""
        rows = self._made_up()
        keys = _keys(rows)
        # The pass that takes more memory is run first, while no results are held.
        wanted = self._whole({name: each.clone() for name, each in values.items()}, rows, keys)
        replayed = self.run({name: each.clone() for name, each in values.items()}, rows, keys)
        return len(replayed) == len(wanted) and all(
            one.dtype == other.dtype and same_values(one, other.detach())
            for one, other in zip(replayed, wanted, strict=True)
        )


def program_settings(*parts: Any) -> tuple[Any, ...]:
    """Return the settings of networks and functions: layers, their attributes, and the forms of parameters."""
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
    """Return the values that a function can read: attributes of it or its object, closure, and global names."""
    found: list[Any] = [id(function)]
    found.extend((name, _entries(value)) for name, value in getattr(function, "__dict__", {}).items())
    owner = getattr(function, "__self__", None)
    found.extend((name, _entries(value)) for name, value in getattr(owner, "__dict__", {}).items())
    found.extend(_plain(cell.cell_contents) for cell in getattr(function, "__closure__", None) or () if _filled(cell))
    around, code = getattr(function, "__globals__", {}), getattr(function, "__code__", None)
    found.extend(_plain(around[name]) for name in getattr(code, "co_names", ()) if name in around)
    return found


def _entries(value: Any) -> Any:
    """Return an attribute in comparable form; for a dictionary, such as that of hooks, all entries."""
    if type(value) in _UNCHANGED:
        return value
    if not isinstance(value, dict):
        return _plain(value)
    return tuple((_plain(key), _plain(each)) for key, each in value.items()) if value else ()


def _plain(value: Any) -> Any:
    """Return numbers, texts, and tuples or lists of these unchanged; of any other object its id."""
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
    """Remove additions of zeros, which taps of layers insert."""
    aten = torch.ops.aten
    for node in list(graph.nodes):
        if node.op != "call_function" or node.target is not aten.add.Tensor or len(node.args) != 2:
            continue
        for other, zeros in (node.args, node.args[::-1]):
            if getattr(zeros, "target", None) is aten.zeros.default and _form(other) == _form(node) is not None:
                node.replace_all_uses_with(other)
                break


def _drop_values(graph: Any) -> None:
    """Replace ``ones_like`` by ``ones`` of the known shape, so that the loss itself need not be computed."""
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
    """Merge equal operations (common subexpressions), unless some operation overwrites a tensor."""
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
    """Return shape and type of a recorded operation's result, None if unknown."""
    value = getattr(node, "meta", {}).get("val")
    return None if value is None else (tuple(value.shape), value.dtype)


def _overwrites(node: Any) -> bool:
    """Return whether an operation writes into one of its arguments, according to its schema."""
    return node.op == "call_function" and getattr(getattr(node.target, "_schema", None), "is_mutable", False)
