"""Process that fits one graphical model with ``mbi``: arrays in by standard input, arrays out by standard output.

JAX starts threads that make every later fork of its process unsafe, and its precision is a setting of the whole
process. Here it has a process of its own, which ends with the fit.
"""

from __future__ import annotations

import io
import json
import sys
from typing import Any

import numpy as np

__all__ = ["main", "pack", "unpack"]


def pack(head: Any, arrays: list[Any]) -> bytes:
    """JSON and arrays as bytes; nothing in them is code."""
    sent = io.BytesIO()
    text = np.frombuffer(json.dumps(head).encode(), dtype=np.uint8)
    np.savez(sent, text, *arrays)
    return sent.getvalue()


def unpack(content: bytes) -> tuple[Any, list[Any]]:
    """JSON and arrays that :func:`pack` wrote."""
    with np.load(io.BytesIO(content), allow_pickle=False) as found:
        names = [f"arr_{place}" for place in range(len(found.files))]
        text, *arrays = (found[name] for name in names)
    return json.loads(text.tobytes()), arrays


def main() -> None:
    """Read the measurements, fit, write the potentials."""
    import jax

    # Counts of large tables need doubles; the library warns where it runs without, or with a cache on disk.
    jax.config.update("jax_enable_x64", True)
    jax.config.update("jax_enable_compilation_cache", False)
    import mbi

    head, arrays = unpack(sys.stdin.buffer.read())
    domain = mbi.Domain.fromdict(head["sizes"])
    measurements = [
        mbi.LinearMeasurement(counts.ravel(), tuple(names), stddev=stddev)
        for counts, names, stddev in zip(arrays, head["columns"], head["stddev"], strict=True)
    ]
    found = mbi.estimation.MirrorDescent().estimate(domain, measurements, iters=head["iterations"], tol=head["close"])
    cliques = [tuple(clique) for clique in found.potentials.cliques]
    tables = [np.asarray(found.potentials[c].datavector(flatten=False), dtype=np.float64) for c in cliques]
    sys.stdout.buffer.write(pack({"cliques": cliques, "total": float(found.total)}, tables))


if __name__ == "__main__":
    main()
