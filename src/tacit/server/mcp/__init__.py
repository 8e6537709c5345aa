"""Model Context Protocol: tools with which AI assistants ask, within a share of the budget that a person states.

Modules:
* :mod:`.endpoint` — Transports of the tools: standard streams for a project, and HTTP at
  ``/mcp``
* :mod:`.tools` — Tools of an assistant: tables, quote, ask, budget, history, published numbers
"""
