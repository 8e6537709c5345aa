"""The vocabulary: errors, neighbouring relations, guarantees, events, and exact numbers. Imports nothing of Tacit."""
