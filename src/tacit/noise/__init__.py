"""Exact samplers. Every distribution here is the mathematical one; no decision is left to float rounding."""
