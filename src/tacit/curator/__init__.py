"""The curator: the object users hold, and the whole path from a question to an answer.

* :mod:`.answer`: the main path on one screen
* :mod:`.curator`: :class:`~tacit.curator.curator.Curator`, with ``explain``, ``sql``, ``budget``, ``tables``,
  ``history``
* :mod:`.opening`: :func:`tacit.open`
* :mod:`.config`: the project file
* :mod:`.accounts`: what authorises a charge
* :mod:`.quote`: what a question would do and cost
* :mod:`.result`: :class:`~tacit.curator.result.Answer`; :mod:`.tables`, :mod:`.show` and :mod:`.charts` are its
  Arrow, text and plots
"""
