"""Views of an answer: text, tables, charts, notebooks.

Modules:
* :mod:`.answer_charts` — Charts of an answer: a point per group with an error bar
* :mod:`.answer_object` — ``Answer``: noisy values, their intervals, the charge and the receipt
* :mod:`.answer_text` — Text and HTML tables of an answer
* :mod:`.answer_views` — Conversions of an answer shared by local and remote answers: frames, intervals, charts,
  text
* :mod:`.arrow_tables` — Arrow tables from canonical values
* :mod:`.notebook_magic` — Cells of a notebook that are SQL: ``%load_ext tacit``, then ``%%tacit epsilon=0.5``
* :mod:`.progress_bar` — Progress bar for long scans on the data owner's terminal
"""
