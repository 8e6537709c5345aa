"""Wire format: the JSON of requests and responses; what is sent, read and described comes from the same classes.

Modules:
* :mod:`.account_responses` — Bodies of responses about a project: accounts, tables, history and keys
* :mod:`.job_responses` — Bodies about work that is polled for: the state of a job, synthetic tables, workloads and
  models
* :mod:`.people_responses` — Bodies of responses about people and their tokens
* :mod:`.requests` — Bodies of requests, read strictly and described in OpenAPI
* :mod:`.response_body` — Body of a response: strict about types, with exact numbers as text
* :mod:`.responses` — Bodies of responses to questions, written, read and described in OpenAPI
* :mod:`.values` — Exact numbers, types and cells in JSON, written and read
"""
