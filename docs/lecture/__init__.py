"""The table behind docs/from-the-lecture-to-the-call.md: what a first course names, and the call that runs it."""
