"""The curator: the object users hold, and the whole path from a question to an answer.

* :mod:`.answer`: the main path on one screen
* :mod:`.curator`: :class:`~tacit.curator.curator.Curator`, with ``explain``, ``sql``, ``budget``, ``tables``,
  ``history``, ``release``, ``charge``
* :mod:`.opening`: :func:`tacit.open`; :mod:`.config` is the project file, :mod:`.opened_ledger` a ledger with its
  :mod:`.keys`
* :mod:`.sources` and :mod:`.fingerprints`: one file, one account, whatever it is called
* :mod:`.accounts`: a population's account as users see it
* :mod:`.quote`: what a question would do and cost
* :mod:`.stored`: released numbers as text; :mod:`.receipt` and :mod:`.receipt_checks`: signed statements about them
* :mod:`.result`: :class:`~tacit.curator.result.Answer`; :mod:`.tables`, :mod:`.show` and :mod:`.charts` are its
  Arrow, text and plots; :mod:`.progress` is for terminals
* :mod:`.direct`: mechanisms used from Python, on the same account
* :mod:`.batch`: planned releases; :mod:`.batch_plan`, :mod:`.batch_split` and :mod:`.batch_report` are their file, the
  division of the total, and the page for people
"""
