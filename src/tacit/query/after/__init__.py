"""What happens after noise: estimates with intervals, and the steps above the aggregation.

Everything here reads released integers, public keys and public parameters, so it costs nothing and cannot look back.

* :mod:`.cells`: a value, the noise events its interval rests on, and its enclosure at a level
* :mod:`.direct`, :mod:`.moments`, :mod:`.joint`: COUNT and SUM; AVG and variances; AVG of a joint release
* :mod:`.ranks`, :mod:`.categories`: quantiles, MIN and MAX; MODE
* :mod:`.estimates`: which of them an aggregate is
* :mod:`.derived`: expressions over cells, with interval arithmetic
* :mod:`.regroup`, :mod:`.windows`, :mod:`.matching`, :mod:`.steps`: the steps of a question
* :mod:`.places`: exact places as values of a type, rounded in a stated direction
* :mod:`.result`: :func:`~tacit.query.after.result.finish`, from released integers to rows with intervals

Proof of the intervals: ``intervals.proof.md``.
"""
