"""The tables of a ledger, version by version; one module per database."""
