"""Composition: basic, the experiment, the proof, advanced and exact."""

from lecture.row import Chapter, Row

PAGE = "composition.md"
ADAPTIVE = "tests/lab/test_lab_adaptive.py"
VECTORS = "tests/accounting/test_accounting_vectors.py"
HUNDRED = '[(tacit.PureDP("0.1"), 100)], delta="1e-6"'

CHAPTER = Chapter(
    "Composition",
    "What several answers cost together, from the sum to the exact answer.",
    (
        Row(
            "Basic composition",
            "k mechanisms of ε_i are Σε_i-DP together.",
            "0.1 + 0.2 + 0.3 = 0.6",
            "Fraction(6, 10)",
            'tacit.compose([tacit.PureDP("0.1"), tacit.PureDP("0.2"), tacit.PureDP("0.3")]).epsilon',
            "Fraction(3, 5)",
            PAGE,
            "tests/accounting/test_compose.py::test_pure_releases_need_no_delta",
        ),
        Row(
            "Basic composition with δ",
            "The δ add up as well.",
            "10·10⁻⁷ = 10⁻⁶",
            "Fraction(1, 10**6)",
            'tacit.compose([(tacit.ApproxDP("0.1", "1e-7"), 10)], method="basic").delta',
            "Fraction(1, 1000000)",
            PAGE,
            "tests/accounting/test_compose.py::test_the_answer_is_a_guarantee",
        ),
        Row(
            "Parallel composition",
            "Mechanisms on disjoint parts cost the largest of their ε.",
            "max(0.5, 0.2) = 0.5",
            "0.5",
            """\
from tacit.core.events import ParallelEvent, PureEvent
float(tacit.compose([ParallelEvent((PureEvent("0.5"), PureEvent("0.2")))]).epsilon)""",
            "0.5",
            PAGE,
            "tests/accounting/test_compose.py::test_parts_of_a_partition",
        ),
        Row(
            "The composition experiment (k-fold, adaptive)",
            "Each round an adversary picks neighbours and a mechanism; b decides which database answers.",
            "e^(10·ln 2) = 1024 for ten rounds of ln 2",
            "2**10",
            """\
move = lab.Move(lab.randomized_response(ratio=2), 0, 1)
game = lab.CompositionExperiment(lab.Repeat(move), rounds=10, family=lab.private(ratio=2))
game.exact().ratio().value""",
            "Fraction(1024, 1)",
            PAGE,
            f"{ADAPTIVE}::test_a_move_outside_the_family_is_refused",
        ),
        Row(
            "Which game `compose` prices",
            "Neighbours stay fixed; where they may change in each round, sampled releases cost more.",
            "the price with fixed neighbours; here 28 % more",
            "1",
            """\
from tacit.core.events import PoissonSampledEvent, PureEvent
plan = [(PoissonSampledEvent("0.1", PureEvent(3)), 500)]
fixed, changing = (float(tacit.compose(plan, delta="1e-6", neighbours=n).epsilon) for n in ("fixed", "changing"))
round(changing / fixed, 2)""",
            "1.28",
            "composition.md",
            "tests/accounting/test_composed_claims.py::test_changing_sides_really_costs_more_than_any_fixed_one",
            ">=",
        ),
        Row(
            "The adversary's coins are part of its view",
            "R has one law in both worlds; the loss is averaged over it.",
            "(1/4)·(9/16 - 4·1/16) = 5/64",
            "Fraction(1, 4) * (Fraction(9, 16) - 4 * Fraction(1, 16))",
            """\
bold, shy = (lab.Move(lab.randomized_response(ratio=r), 0, 1) for r in (3, 2))
tossing = lab.RandomizedStrategy({"bold": "1/4", "shy": "3/4"}, lambda view: bold if view[0] == "bold" else shy)
lab.CompositionExperiment(tossing, rounds=2).exact().delta(ratio=4).value""",
            "Fraction(5, 64)",
            PAGE,
            f"{ADAPTIVE}::test_declared_coins_are_averaged_and_stand_in_the_view",
        ),
        Row(
            "One person in several databases",
            "The person is in all of them or in none; the losses add up.",
            "2·3 = 6",
            "2 * 3",
            """\
hospital, school = lab.geometric(ratio=2, rows=3), lab.geometric(ratio=3, rows=2)
both = (lab.in_or_out(hospital, [0, 1], person=1), lab.in_or_out(school, [], person=1))
lab.CompositionExperiment(lab.Repeat(both), rounds=1).exact().ratio().value""",
            "Fraction(6, 1)",
            PAGE,
            f"{ADAPTIVE}::test_one_person_in_or_out_of_several_databases",
        ),
        Row(
            "Expected loss (KL divergence)",
            "The expected loss of ε-close laws is at most ε(e^ε - 1).",
            "ln 3·2 = 2.197",
            "math.log(3) * 2",
            "round(lab.randomized_response(ratio=3).kl().up, 9)",
            "0.549306144",
            PAGE,
            "tests/core/test_divergences.py::test_kl_of_randomized_response_meets_the_tight_lemma",
            "<=",
        ),
        Row(
            "Its tight form",
            "ε(e^ε - 1)/(e^ε + 1), attained by randomized response.",
            "ln 3·2/4 = 0.5493",
            "math.log(3) * 2 / 4",
            "round(divergences.kl_bound(ratio=3).up, 9)",
            "0.549306144",
            PAGE,
            "tests/core/test_divergence_properties.py::test_kl_lemma_is_attained_by_randomized_response",
        ),
        Row(
            "Azuma's inequality",
            "A martingale with steps of at most c_i exceeds t with probability at most exp(-t²/(2Σc_i²)).",
            "e^(-25/2) = 3.727·10⁻⁶",
            "math.exp(-12.5)",
            'print(lab.azuma(steps=["0.1"] * 100, above=5))',
            "3.726653172e-06",
            PAGE,
            f"{ADAPTIVE}::test_azuma_numbers",
        ),
        Row(
            "Azuma, as textbooks write it",
            "Steps within intervals of length r_i: exp(-2t²/Σr_i²).",
            "e⁻² = 0.1353",
            "math.exp(-2)",
            "print(lab.azuma(ranges=[2] * 100, above=20))",
            "0.1353352832",
            "composition.md",
            "tests/lab/test_lab_adaptive.py::test_azuma_numbers",
        ),
        Row(
            "The set of bad views",
            "Views with a loss above ε′.",
            "(2/3)³ = 8/27 for a loss above 1 in three rounds of ln 2",
            "Fraction(2, 3) ** 3",
            """\
move = lab.Move(lab.randomized_response(ratio=2), 0, 1)
lab.CompositionExperiment(lab.Repeat(move), rounds=3).exact().bad_views(epsilon=1).value""",
            "Fraction(8, 27)",
            PAGE,
            f"{ADAPTIVE}::test_the_set_of_bad_views_by_hand",
        ),
        Row(
            "Advanced composition",
            "ε′ = √(2k ln(1/δ′))·ε + kε(e^ε - 1).",
            "6.3082 for a hundred times 0.1 at 10⁻⁶",
            "0.1 * math.sqrt(200 * math.log(1e6)) + 10 * (math.exp(0.1) - 1)",
            f'round(float(tacit.compose({HUNDRED}, method="advanced").epsilon), 9)',
            "6.308230951",
            PAGE,
            f"{VECTORS}::test_advanced_formula",
        ),
        Row(
            "Its simple form",
            "√(2k ln(1/δ′))·ε + kε², for ε < 1.",
            "6.2565",
            "0.1 * math.sqrt(200 * math.log(1e6)) + 100 * 0.01",
            f'round(float(tacit.compose({HUNDRED}, method="simple").epsilon), 9)',
            "6.25652177",
            PAGE,
            f"{ADAPTIVE}::test_the_simple_form_is_a_method",
        ),
        Row(
            "The price of one of ten thousand databases",
            "A total of 1 except with probability e⁻³² leaves each about 1/801.",
            "√(20000·32)/801 + 10000/801² = 1.0143",
            "math.sqrt(20_000 * 32) / 801 + 10_000 / 801**2",
            """\
delta = Fraction(math.exp(-32)).limit_denominator(10**20)
round(float(tacit.compose([(tacit.PureDP("1/801"), 10_000)], delta=delta, method="simple").epsilon), 6)""",
            "1.014338",
            PAGE,
            f"{ADAPTIVE}::test_the_simple_form_is_a_method",
            "=",
            1e-5,
        ),
        Row(
            "Optimal composition",
            "No smaller ε holds for every such mechanism.",
            "6.2565, the simple form",
            "0.1 * math.sqrt(200 * math.log(1e6)) + 100 * 0.01",
            f'round(float(tacit.compose({HUNDRED}, method="optimal").epsilon), 9)',
            "4.774567588",
            PAGE,
            f"{VECTORS}::test_optimal_composition",
            "<=",
        ),
        Row(
            "√k instead of k",
            "With a δ the cost of k queries grows like √k: μ√k in Gaussian DP.",
            "(1/0.1)² = 100 queries, not 10",
            "100",
            """\
from tacit.accounting.filters import GDPFilter
GDPFilter(mu=1).how_many(tacit.GDP("0.1"))""",
            "100",
            "composition.md",
            "tests/accounting/test_filters.py::test_how_many_charges_fit",
        ),
        Row(
            "k queries in advance, or one by one",
            "A plan is composed as a whole; one by one a filter admits each.",
            "the 100 of the plan",
            "100",
            """\
from tacit.accounting.filters import ZCDPFilter
planned = tacit.compose([(tacit.PureDP("0.1"), 100)], delta="1e-6", method="optimal").epsilon
ZCDPFilter.for_target(epsilon=planned, delta="1e-6").how_many(tacit.PureDP("0.1"))""",
            "85",
            "composition.md",
            "tests/accounting/test_filters.py::test_how_many_charges_fit",
            "<=",
        ),
        Row(
            "Sampling amplifies",
            "An ε-DP mechanism on a secret sample of rate q is ln(1 + q(e^ε - 1))-DP.",
            "ln(1 + 0.01·(e - 1)) = 0.017037",
            "math.log(1 + 0.01 * (math.e - 1))",
            """\
from tacit.accounting.prices import amplify
round(float(amplify(epsilon=1, rate="0.01").epsilon), 9)""",
            "0.017036863",
            PAGE,
            f"{VECTORS}::test_amplification",
        ),
    ),
)
