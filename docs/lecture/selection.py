"""Choosing: noisy max, the exponential mechanism, the sparse vector."""

from lecture.row import Chapter, Row

PAGE = "course/06-selection.md"
VECTORS = "tests/mechanisms/test_selection_vectors.py"
EXACT = "tests/mechanisms/test_selection_exact.py"

CHAPTER = Chapter(
    "Choosing",
    "When the answer is a name and not a number, choose by a noisy score.",
    (
        Row(
            "Report noisy max",
            "Add Lap(1/ε) to every count and name the largest: ε-DP.",
            "scale 1/0.5 = 2",
            "2",
            'tacit.NoisyMax(epsilon="0.5", sensitivity=1, monotone=True).scale',
            "Fraction(2, 1)",
            "course/06-selection.md",
            f"{EXACT}::test_noisy_max_is_private_ties_included",
        ),
        Row(
            "The most common disease",
            "The one named has at most 2·ln(|R|/β)/ε patients fewer.",
            "2·ln(200/0.05)/0.5 = 33",
            "2 * math.log(200 / 0.05) / 0.5",
            'tacit.NoisyMax(epsilon="0.5", sensitivity=1, monotone=True).error("0.05", candidates=200)',
            "19.0",
            "course/06-selection.md",
            "tests/mechanisms/test_selection.py::test_the_bound_of_noisy_max_counts_all_rivals",
            "<=",
        ),
        Row(
            "The exponential mechanism",
            "r is chosen with probability proportional to e^(ε·u(r)/(2Δu)).",
            "e/(1 + e^(1/2) + e) = 0.50648 for scores 0, 1, 2",
            "math.e / (1 + math.exp(0.5) + math.e)",
            "round(tacit.Exponential(epsilon=1, sensitivity=1).probabilities([0, 1, 2])[2], 9)",
            "0.506480391",
            PAGE,
            f"{VECTORS}::test_probabilities",
        ),
        Row(
            "The same without the 2",
            "∝ e^(ε·u/Δu) is 2ε-DP: the ε of that form is half of ours.",
            "e²/(1 + e + e²) = 0.66524 at its ε = 1, our ε = 2",
            "math.exp(2) / (1 + math.e + math.exp(2))",
            "round(float(tacit.Exponential(epsilon=2, sensitivity=1).probabilities([0, 1, 2])[2]), 9)",
            "0.665240956",
            "course/06-selection.md",
            "tests/mechanisms/test_selection_exact.py::test_selection_is_private",
        ),
        Row(
            "The exponential mechanism is ε-DP",
            "Scores that move by Δu change no probability by more than e^ε.",
            "1",
            "1",
            """\
choose = tacit.Exponential(epsilon=1, sensitivity=1)
p, q = choose.probabilities([0, 1, 2]), choose.probabilities([1, 0, 1])
round(max(abs(math.log(a / b)) for a, b in zip(p, q)), 6)""",
            "0.72225",
            PAGE,
            f"{EXACT}::test_selection_is_private",
            "<=",
        ),
        Row(
            "Monotone scores halve the price",
            "If adding a person moves all scores one way, e^(ε·u/Δu) is ε-DP too.",
            "e²/(1 + e + e²) = 0.66524",
            "math.e**2 / (1 + math.e + math.e**2)",
            "round(tacit.Exponential(epsilon=1, sensitivity=1, monotone=True).probabilities([0, 1, 2])[2], 9)",
            "0.665240956",
            PAGE,
            f"{VECTORS}::test_probabilities",
        ),
        Row(
            "Accuracy of the exponential mechanism",
            "u(r) >= OPT - (2Δu/ε)(ln|R| + t) except with probability e^(-t).",
            "2·(ln 100 + 3) = 15.21",
            "2 * (math.log(100) + 3)",
            """\
beta = Fraction(math.exp(-3)).limit_denominator(10**12)
round(tacit.Exponential(epsilon=1, sensitivity=1).error(beta, candidates=100), 4)""",
            "15.2103",
            PAGE,
            f"{VECTORS}::test_the_accuracy_of_the_exponential_mechanism",
            "=",
            1e-4,
        ),
        Row(
            "Many optimal candidates help",
            "ln|R| becomes ln(|R|/|R_OPT|).",
            "2·(ln(100/50) + 3) = 7.386",
            "2 * (math.log(2) + 3)",
            """\
beta = Fraction(math.exp(-3)).limit_denominator(10**12)
round(tacit.Exponential(epsilon=1, sensitivity=1).error(beta, candidates=100, optimal=50), 4)""",
            "7.3863",
            PAGE,
            "tests/mechanisms/test_selection.py::test_error_shrinks_with_epsilon_ties_and_monotone",
            "=",
            1e-4,
        ),
        Row(
            "A posted price",
            "Bids of 1, 1, 1 and 3.01: a price of 1 earns 4, and 1.01 earns 1.01.",
            "1.00 is the likeliest of six prices",
            "1.0",
            """\
bids, prices = [1, 1, 1, Fraction("3.01")], ["0.50", "1.00", "1.01", "2.00", "3.01", "3.02"]
earns = [Fraction(price) * sum(bid >= Fraction(price) for bid in bids) for price in prices]
chances = tacit.Exponential(epsilon=4, sensitivity="3.02", monotone=True).probabilities(earns)
print(prices[chances.index(max(chances))])""",
            "1.00",
            "course/06-selection.md",
            "tests/docs/test_documentation.py::test_examples_of_pages",
        ),
        Row(
            "Permute-and-flip is never worse",
            "It chooses the best at least as often as the exponential mechanism.",
            "0.50648",
            "math.e / (1 + math.exp(0.5) + math.e)",
            "round(tacit.PermuteAndFlip(epsilon=1, sensitivity=1).probabilities([0, 1, 2])[2], 9)",
            "0.58717167",
            PAGE,
            f"{VECTORS}::test_probabilities",
            ">=",
        ),
        Row(
            "AboveThreshold: one price for the whole stream",
            "Any number of queries below it, and one above, cost ε together.",
            "ε = 1 after 1000 questions",
            "1",
            """\
alarm = tacit.SparseVector(epsilon=1, sensitivity=1, threshold=10**6)
answers = alarm.release([0] * 1000)
alarm.guarantee.epsilon""",
            "Fraction(1, 1)",
            PAGE,
            "tests/mechanisms/test_sparse_vector_exact.py::test_short_streams_are_private",
        ),
        Row(
            "Accuracy of AboveThreshold",
            "α = 8(ln k + ln(2/β))/ε for k queries.",
            "8·(ln 100 + ln 40) = 66.35",
            "8 * (math.log(100) + math.log(40))",
            """\
alarm = tacit.SparseVector(epsilon=1, sensitivity=1, threshold=0, epsilon_threshold="0.5")
alarm.error("0.05", queries=100)""",
            "40.0",
            PAGE,
            f"{VECTORS}::test_the_accuracy_of_above_threshold",
            "<=",
        ),
    ),
)
