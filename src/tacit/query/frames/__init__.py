"""Frames: questions written as method calls, in the manner of Polars and Ibis, which become SQL text.

A frame decides nothing: it writes the text of a question, and the same parser, planner and refusals meet it as meet any
other text. Names and constants are quoted in one place, :mod:`.sql_text`.

Modules:
* :mod:`.column_expressions` — Column expressions: comparisons, arithmetic, functions and aggregates, as SQL text
* :mod:`.frame` — Frame: a question as a chain of method calls, written as SQL
* :mod:`.sql_text` — Names, constants and types as SQL text that cannot mean anything else
"""
