"""Wire format: the JSON of requests and responses; what is sent, read and described comes from the same classes.

Modules:
* :mod:`.job_responses` — Bodies about work that is polled for: the state of a job, synthetic tables, workloads and
  models
* :mod:`.requests` — Bodies of requests, read strictly and described in OpenAPI
* :mod:`.responses` — Bodies of responses, written, read and described in OpenAPI
* :mod:`.values` — Exact numbers, types and cells in JSON, written and read
"""
