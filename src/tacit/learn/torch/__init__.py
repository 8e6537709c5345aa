"""Networks with a guarantee: one object that samples, clips, adds noise, accounts and stops, so that all five agree.

Entered only when used (``from tacit.learn.torch import PrivateTrainer``); needs the extra ``torch``.

Modules:
* :mod:`.exact_sums` — Outer products of layers, and their exact sums as whole numbers in floats
* :mod:`.examples` — Training rows: what data is taken, how rows are read, and micro-batches of one fixed shape
* :mod:`.gradients` — Per-example gradients as integers of bounded norm, and their exact sum
* :mod:`.randomness` — Random layers with coins per row
* :mod:`.recorded_pass` — Passes over made-up rows: whether places in a micro-batch matter, and the operations of a
  pass to be replayed
* :mod:`.torch_import` — Import of PyTorch, with a clear message where it, or a part of it that is needed, is missing
* :mod:`.trainer` — Private training of networks: sampling, clipping, noise, accounting, stopping and checkpoints
"""

from tacit.learn.torch.trainer import PrivateTrainer

__all__ = ["PrivateTrainer"]
