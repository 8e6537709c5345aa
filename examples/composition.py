"""A hundred releases cost less than their sum, and the truth is computed from both sides."""

import tacit


def main() -> None:
    """Compare the methods of composition."""
    one = tacit.Laplace(epsilon="0.1", l1_sensitivity=1)
    for method in ("basic", "advanced", "optimal", "rdp", "pld"):
        total = tacit.compose([(one, 100)], delta="1e-6", method=method)
        print(f"{method:9} epsilon {float(total.epsilon):.3f}")
    print("their sum is 10; the last two are the truth")


if __name__ == "__main__":
    main()
