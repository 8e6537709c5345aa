"""Failures without a definition: the lecture's first part."""

from lecture.row import Chapter, Row

WHY = "course/09-why-not-just.md"
LINK = "tests/audit/test_linkage_attack.py"
STAT = "tests/audit/test_statistics_attack.py"
INEXACT = "tests/audit/test_inexact_attacks.py"

CHAPTER = Chapter(
    "Why a definition is needed",
    "Each of these ways was relied on, and each is broken by a short program.",
    (
        Row(
            "Trusted curator",
            "One party holds the data and answers with noise; analysts see answers only.",
            "charged 0.5 of 1",
            "'Charged epsilon 0.5 to people'",
            """\
import pyarrow as pa
curator = tacit.open(pa.table({"ill": [1, 0, 1]}), unit="row", epsilon="1")
curator.sql("SELECT COUNT(*) AS n FROM data", epsilon="0.5").charge.text""",
            "'Charged epsilon 0.5 to people'",
            "first-answer.md",
            "tests/cli/test_share_a_project.py::test_every_command_of_the_page",
        ),
        Row(
            "Interactive setting",
            "Queries may depend on earlier answers, until the budget is spent.",
            "1/0.1 = 10 queries",
            "10",
            """\
from tacit.accounting.filters import PureFilter
PureFilter(epsilon=1).how_many(tacit.PureDP("0.1"))""",
            "10",
            "composition.md",
            "tests/accounting/test_filters.py::test_how_many_charges_fit",
        ),
        Row(
            "Non-interactive setting",
            "Everything is released at once: `tacit release`, a histogram, a synthetic table.",
            "ε = 1 for all 100 counts",
            "1",
            "tacit.Histogram(epsilon=1, bins=range(100)).guarantee.epsilon",
            "Fraction(1, 1)",
            "tutorials/share-a-project.md",
            "tests/core/test_sensitivity.py::test_a_histogram_by_hand",
        ),
        Row(
            "Auxiliary information",
            "Whatever an attacker knows beforehand, the odds move by at most e^ε.",
            "9:1 becomes 27:1, so 27/28",
            "Fraction(27, 28)",
            """\
p, q = coin.distribution(0)[0].value, coin.distribution(1)[0].value
9 * p / (9 * p + q)""",
            "Fraction(27, 28)",
            "course/09-why-not-just.md",
            "tests/lab/test_lab_finite.py::test_randomized_response_is_exactly_ln_3",
        ),
        Row(
            "The single HIV case",
            "An exact count of one names the person; a noisy one is at most e^ε times as likely.",
            "e^(ln 2) = 2",
            "2",
            "lab.geometric(ratio=2, rows=1).ratio().value",
            "Fraction(2, 1)",
            "course/09-why-not-just.md",
            "tests/lab/test_lab_finite.py::test_folded_geometric_counts_are_tight",
        ),
        Row(
            "Linkage attack",
            "A table without names is joined with a list of people; a row that is alone is found.",
            "3 of 5 rows are alone",
            "3",
            """\
nameless = [(34, "f", "hill"), (34, "m", "hill"), (71, "f", "mill"), (71, "f", "mill"), (52, "m", "park")]
attacks.link(nameless, nameless, owners=range(5)).linked.hits""",
            "3",
            WHY,
            f"{LINK}::test_linkage_finds_exactly_those_who_are_alone",
        ),
        Row(
            "k-anonymity",
            "Every row shares its quasi-identifiers with at least k - 1 others.",
            "k = 2 once the ages are coarse",
            "2",
            """\
coarse = [(age // 50, sex) for age, sex in [(34, "f"), (31, "f"), (71, "f"), (79, "f")]]
attacks.link(coarse, coarse, owners=range(4)).k""",
            "2",
            WHY,
            f"{LINK}::test_linkage_finds_exactly_those_who_are_alone",
        ),
        Row(
            "Quasi-identifiers add up",
            "Harmless columns single people out together.",
            "2, then 4 of 6 people found",
            "[2, 4]",
            """\
people = [(40, "f"), (41, "f"), (41, "m"), (50, "m"), (50, "m"), (60, "f")]
[step.linked.hits for step in attacks.link_by_steps(("age", "sex"), people, people, range(6))]""",
            "[2, 4]",
            WHY,
            f"{LINK}::test_knowing_more_never_finds_fewer",
        ),
        Row(
            "Linkage by inexact knowledge (Netflix)",
            "Ratings off by one and dates off by days are enough: the row that stands out is named.",
            "row 0 is named",
            "0",
            """\
R = attacks.Rating
films = [{1: R(5, 10), 2: R(1, 40)}, {1: R(2, 300), 3: R(4, 7)}, {2: R(1, 200)}]
attacks.score_rows({1: R(4, 12), 2: R(1, 35)}, films).named""",
            "0",
            WHY,
            f"{INEXACT}::test_the_score_by_hand",
        ),
        Row(
            "The rule that keeps it honest",
            "A best row that leads by less than 1.5 standard deviations is not named.",
            "no one, for two equal rows",
            "None",
            """\
R = attacks.Rating
print(attacks.score_rows({1: R(4, 9)}, [{1: R(4, 10)}, {1: R(4, 10)}, {2: R(1, 1)}]).named)""",
            "None",
            WHY,
            f"{INEXACT}::test_no_person_is_named_who_does_not_stand_out",
        ),
        Row(
            "Just statistics: differencing",
            "Two totals with one person between them are that person's row.",
            "4 of 4 secrets",
            "4",
            """\
ill = {1, 2, 3, 5, 8, 13, 21, 34, 55, 89}
attack = attacks.Differencing(((5, True), (6, False), (21, True), (22, False)))
attack.run(lambda without, wording: float(len(ill - {without}))).hits""",
            "4",
            WHY,
            f"{STAT}::test_differencing_beats_hidden_small_counts_and_not_the_curator",
        ),
        Row(
            "Hiding small counts does not help",
            "Both totals are large, so hiding counts below ten changes nothing.",
            "4 of 4 secrets again",
            "4",
            """\
from tacit.audit.attacks.counts import hide_small
ill = set(range(0, 60, 2))
attack = attacks.Differencing(((4, True), (5, False), (20, True), (21, False)))
attack.run(hide_small(lambda without, wording: float(len(ill - {without})), smallest=10)).hits""",
            "4",
            WHY,
            f"{STAT}::test_hiding_small_answers_hides_them",
        ),
        Row(
            "Averaging fresh noise",
            "The mean of k answers with independent noise has a standard deviation of σ/√k.",
            "1.357/√1000 = 0.0429 at ε = 1",
            "math.sqrt(2 * math.exp(-1) / (1 - math.exp(-1)) ** 2 / 1000)",
            """\
noise = laws.law_of(tacit.Laplace(epsilon=1, l1_sensitivity=1))
round(noise.std.up / math.sqrt(1000), 10)""",
            "0.0429109216",
            WHY,
            f"{STAT}::test_averaging_defeats_fresh_noise_and_not_free_repeats",
        ),
        Row(
            "Reconstruction from totals (Dinur and Nissim)",
            "Enough subset totals with small errors determine almost every secret bit.",
            "all of 40 that are judged",
            "40",
            """\
import numpy as np
secrets = np.arange(60) % 3 == 0
puzzle = attacks.Reconstruction(secrets, tuple(attacks.modular_subsets(range(60), 400)), judged=40)
puzzle.run(lambda subset: float((subset.mask & secrets).sum())).hits""",
            "40",
            WHY,
            "tests/audit/test_reconstruction_attack.py::"
            "test_two_thousand_people_from_exact_totals_and_not_through_a_budget",
        ),
        Row(
            "Membership in a study, or in a model",
            "A statistic that fits its rows too well tells who was among them.",
            "40 of 40 told apart",
            "40",
            """\
import numpy as np
rows, labels = np.eye(40), np.arange(40) % 2 == 0
told = attacks.ModelMembership(rows[:20], labels[:20], rows[20:], labels[20:])
told.run(attacks.ridge(rows[:20], labels[:20])).hits""",
            "40",
            WHY,
            "tests/audit/test_membership_attack.py::test_an_overfitted_model_knows_its_rows",
        ),
        Row(
            "Sampling rows",
            "k of n rows expose k·u/n people on average, if u are alone with their values.",
            "10·89/100 = 8.9 people",
            "Fraction(89, 10)",
            "attacks.exposure([(age,) for age in range(90)] + [(30,)] * 10, [10])[0].expected",
            "Fraction(89, 10)",
            WHY,
            f"{LINK}::test_samples_expose_as_many_as_the_formula_says",
        ),
        Row(
            "Sampling is (0, k/n)-DP and no more",
            "A published row of n people is disclosed with probability 1/n, whatever ε is.",
            "δ = 1/4 at every ε",
            "Fraction(1, 4)",
            'lab.sample_rows(universe="ab", size=4, sample=1).delta(epsilon=50).value',
            "Fraction(1, 4)",
            "course/07-delta-and-the-gaussian.md",
            "tests/lab/test_lab_finite.py::test_sampling_rows_is_not_private_for_any_epsilon",
        ),
        Row(
            "Semantic security (perfect privacy) cannot be had: smoking and cancer",
            "A useful study teaches something about people who are not in it.",
            "from 5.9% to 15%: 9.1 points learned",
            "0.091",
            "float(attacks.Study(smokers=(45, 300), others=(14, 700)).learned(epsilon=1).learned)",
            "0.091",
            WHY,
            f"{INEXACT}::test_what_is_learned_about_a_person_who_is_not_in_the_data",
        ),
        Row(
            "What the own row adds",
            "This is what differential privacy hides.",
            "46/301 - 45/300 = 0.28 points",
            "Fraction(46, 301) - Fraction(45, 300)",
            "attacks.Study(smokers=(45, 300), others=(14, 700)).learned(epsilon=1).own_share",
            "Fraction(17, 6020)",
            WHY,
            f"{INEXACT}::test_what_is_learned_about_a_person_who_is_not_in_the_data",
        ),
        Row(
            "A useful mechanism must be random",
            "A deterministic function that is not constant has no ε.",
            "ε is infinite",
            "'infinite'",
            """\
exact_count = lab.FiniteMechanism({(): {0: 1}, ("x",): {1: 1}}, relation="add_remove")
str(exact_count.epsilon())""",
            "'infinite'",
            "course/02-the-definition.md",
            "tests/core/test_divergences.py::test_a_support_mismatch_is_infinite_until_delta_covers_it",
        ),
    ),
)
