"""Server: HTTP API, console, identity and worker processes.

Modules:
* :mod:`.api` — HTTP API: JSON or Arrow for programs
* :mod:`.console` — Console: pages for people, rendered on the server
* :mod:`.errors` — Errors of the server, their statuses and public descriptions
* :mod:`.identity` — Identity: people, roles, tokens, sessions, one-time links, single sign-on
* :mod:`.mcp` — Model Context Protocol: tools with which AI assistants ask, within a share of the budget that a person
  states
* :mod:`.pgwire` — PostgreSQL protocol: psql, drivers and dashboards ask the server as if it were a database
* :mod:`.rate_limit` — Rate limits: token buckets and counters, in memory shared by worker processes
* :mod:`.serve` — Serving: sockets, TLS, worker processes, connection limits and logs
* :mod:`.service` — Permission-checked operations shared by the API and the console
* :mod:`.settings` — Settings of a server
* :mod:`.timing` — Timing: response times decided from the plan, lateness released with noise, outcomes held until then
"""
