"""What releases cost together: composition, calibration, filters and odometers. Reads events and guarantees only.

* ``compose``     :func:`~tacit.accounting.compose.compose`: the guarantee of a planned list, by any theorem or the best
* ``calibrate``   the noise for a target over a planned list
* ``accountant``  a running sum for plans and training runs
* ``basic``, ``advanced``, ``optimal``, ``zcdp``, ``renyi``, ``pld``  one theorem each
* ``amplification``, ``parallel``  what sampling and partitions save
* ``filters``, ``odometers``  the hard stop of an interactive account
* ``prices``      one release in the currency of a filter
"""
