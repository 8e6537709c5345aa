"""Queries that every part of the SQL path is tested with, accepted and refused, and the catalog they are about."""
