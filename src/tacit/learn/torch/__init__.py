"""Networks with a guarantee: one object that samples, clips, adds noise, accounts and stops, so that all five agree.

Entered only when used (``from tacit.learn.torch import PrivateTrainer``); needs the extra ``torch``.

Modules:
* :mod:`.averaging` — Exponential moving average of the weights of a network: post-processing of released parameters
* :mod:`.batch_position_check` — Check on synthetic rows whether an example's place in a micro-batch matters
* :mod:`.checkpoints` — Checkpoints: atomic loading, and steps counted by run
* :mod:`.exact_sums` — Exact sums of whole numbers in floats: in float32 while a bound shows that nothing rounds, else
  in float64
* :mod:`.examples` — Training rows in micro-batches of one fixed shape
* :mod:`.forward_pass` — Settings of the pass that computes the loss of one example: views, and half precision
* :mod:`.gradient_grid` — The public grid that gradients are put on: a function of how many numbers a network has
* :mod:`.gradients` — Per-example gradients as integers of bounded norm, and their exact sum
* :mod:`.layer_factors` — Calls of layers whose weight gradient is a sum of outer products, one for each position
* :mod:`.layout` — Layout of rows in micro-batches, independent of other rows
* :mod:`.parameters` — The trained parameters of a model as one long vector, and a noisy gradient back to them
* :mod:`.processes` — Training by several processes: each sums the gradients of its own rows, one of them adds the
  noise, once
* :mod:`.randomness` — Random layers with coins per row
* :mod:`.recorded_pass` — A pass over a micro-batch as a list of tensor operations, recorded once on made-up rows and
  then replayed
* :mod:`.row_readers` — Rows of a dataset, read here or by worker processes
* :mod:`.selection` — Selection among trained networks with every run accounted for
* :mod:`.torch_import` — Import of PyTorch, with a clear message where it is missing
* :mod:`.trainer` — Private training of networks: sampling, clipping, noise, accounting and stopping
* :mod:`.unsupported_layers` — Layers that cannot be trained privately, and their replacements
"""

from tacit.learn.torch.selection import NetworkSelection, select
from tacit.learn.torch.trainer import PrivateTrainer

__all__ = ["NetworkSelection", "PrivateTrainer", "select"]
