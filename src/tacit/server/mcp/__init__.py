"""Model Context Protocol: tools with which AI assistants ask, within a share of the budget that a person states.

Modules:
* :mod:`.affordable` — Request in place of one that was refused: the query that the refusal proposes, at a price that
  the budgets hold
* :mod:`.doors` — Doors behind the tools: a curator in this process, or a person at a server
* :mod:`.endpoint` — Streamable HTTP behind the tokens of the server, at ``/mcp``
* :mod:`.protocol` — Protocol of the tools, and standard streams: for a project, or as a bridge to a server
* :mod:`.tools` — Tools of an assistant: tables, quote, ask, budget, history
"""
