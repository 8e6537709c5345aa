"""Mechanisms: releases with a stated guarantee, a stated error, and a proof beside the code.

``base``         what all have in common          ``grid``        floats on a public lattice
``additive``     noise on numbers: ``laplace``, ``gaussian`` (with its calibration and profile), ``staircase``
``scores``       choosing a candidate: ``exponential``, ``permute_and_flip``, ``noisy_max``, ``top_k``
``counts``       many counts at once: ``histogram``, ``counting_queries``
``mean``, ``sparse_vector``, ``randomized_response``
``planning``     any three of error, confidence, epsilon, people (``sufficiency`` has the bounds)
"""
