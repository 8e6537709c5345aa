"""Networks with a guarantee: one object that samples, clips, adds noise, accounts and stops, so that all five agree.

Entered only when used (``from tacit.learn.torch import PrivateTrainer``); needs the extra ``torch``.

Modules:
* :mod:`.batch_position_check` — Check on synthetic rows whether an example's place in a micro-batch matters
* :mod:`.checkpoints` — Checkpoints: atomic loading, and steps counted by run
* :mod:`.examples` — Training rows in micro-batches of one fixed shape
* :mod:`.gradients` — Per-example gradients as integers of bounded norm, and their exact sum
* :mod:`.layer_factors` — Calls of layers whose weight gradient is a sum of outer products, one for each position
* :mod:`.layout` — Layout of rows in micro-batches, independent of other rows
* :mod:`.parameters` — The trained parameters of a model as one long vector, and a noisy gradient back to them
* :mod:`.randomness` — Random layers with coins per row
* :mod:`.selection` — Selection among trained networks with every run accounted for
* :mod:`.torch_import` — Import of PyTorch, with a clear message where it is missing
* :mod:`.trainer` — Private training of networks: sampling, clipping, noise, accounting and stopping
* :mod:`.unsupported_layers` — Layers that cannot be trained privately, and their replacements
"""

from tacit.learn.torch.selection import NetworkSelection, select
from tacit.learn.torch.trainer import PrivateTrainer

__all__ = ["NetworkSelection", "PrivateTrainer", "select"]
