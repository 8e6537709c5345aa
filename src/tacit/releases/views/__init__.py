"""Views of an answer: text, tables, charts.

Modules:
* :mod:`.answer_charts` — Charts of an answer: a point per group with an error bar
* :mod:`.answer_object` — ``Answer``: noisy values, their intervals, the charge and the receipt; or exact values of
  public tables
* :mod:`.answer_text` — Text and HTML tables of an answer
* :mod:`.answer_views` — Conversions of an answer shared by local and remote answers: frames, intervals, charts, text
* :mod:`.arrow_tables` — Arrow tables from canonical values
"""
