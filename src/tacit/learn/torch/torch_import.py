"""Import of PyTorch, with a clear message if it or a required part of it is missing.

PyTorch is imported without its types, so that type checking gives the same result whether it is installed or not.
"""

from __future__ import annotations

from typing import Any, Final

from tacit.core import extras

#: A torch.Tensor, a torch.nn.Module and so on: names for readers.
Tensor = Any

#: Parts of PyTorch that training requires, by module. The ``has_torch_function`` checks make it possible to run the
#: body of a Python function of PyTorch under a mode; without them random layers inside would be missed.
NEEDED: Final[dict[str, tuple[str, ...]]] = {
    "torch.func": ("grad", "vmap", "functional_call"),
    "torch.overrides": ("TorchFunctionMode",),
    "torch.nn.functional": (
        "linear",
        "conv1d",
        "conv2d",
        "embedding",
        "unfold",
        "dropout",
        "scaled_dot_product_attention",
        "multi_head_attention_forward",
        "has_torch_function",
        "has_torch_function_unary",
        "has_torch_function_variadic",
    ),
    "torch": ("dropout", "feature_dropout", "alpha_dropout", "feature_alpha_dropout", "rrelu", "autocast"),
}


def load(name: str = "torch") -> Any:
    """Import a module of PyTorch; refuse, with the command that installs it, if it is missing."""
    return extras.load(name, "torch", "networks")


def check_parts() -> None:
    """Refuse a version of PyTorch without a required part.

    Raises:
        MissingError: a part is missing.
    """
    for module, names in NEEDED.items():
        missing = [name for name in names if not hasattr(load(module), name)]
        if missing:
            version = getattr(torch, "__version__", "of unknown version")
            raise extras.MissingError(
                "torch",
                f"{version} has no {module}.{missing[0]}, which private training rests on; "
                f"install a version that is known to work: {extras.install_command('torch')}",
            )


torch = load()
check_parts()
