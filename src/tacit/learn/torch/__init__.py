"""Networks with a guarantee: one object that samples, clips, adds noise, accounts and stops, so that all five agree.

Entered only when used (``from tacit.learn.torch import PrivateTrainer``); needs the extra ``torch``.

``library``     the door to PyTorch
``refusals``    models, optimizers and data that cannot be trained on privately, each with a remedy
``examples``    rows of tensors or datasets, in micro-batches of one fixed shape
``gradients``   per-example gradients of any network as integers of bounded norm, summed exactly
``stacks``      the same for stacks of linear layers, many times faster
``layout``      where rows stand in micro-batches, so that no row moves another's last bits
``randomness``  random layers whose coins belong to a row, and losses that a batch of one would change
``settling``    looking at a network on made-up rows: whether it can be trained, whether places matter
``parameters``  the trained parameters as one vector
``checkpoints`` which steps were paid for, by run
``trainer``     PrivateTrainer
``selection``   the best of several runs, charged for all of them
"""

from tacit.learn.torch.selection import Selection, select
from tacit.learn.torch.trainer import PrivateTrainer

__all__ = ["PrivateTrainer", "Selection", "select"]
