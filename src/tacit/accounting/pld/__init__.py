"""Privacy loss distributions, certified: an upper and a lower bound on ε that provably enclose the true value.

* ``pairs``      what is known about one release: two laws P, Q of its output, by the law of the loss ln(P/Q)
* ``discretise`` a loss law on a grid that is worse than the true one, and one that is better
* ``convolve``   the law of the sum of many losses, by FFT, with every error bounded
* ``account``    the choice of grid and tilt, and the answer

``pld.proof.md`` has the arguments.
"""
