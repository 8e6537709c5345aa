"""Private empirical risk minimisation, in three forms."""

from lecture.row import Chapter, Row

PAGE = "learning.md"
MINIMISERS = "tests/learn/test_learn_minimisers.py"
MODEL = """\
model = learn.LogisticRegression(epsilon=1, delta="1e-6", bounds=(-1, 1), classes=[0, 1], method="{}")
model.fit(X, y).guarantee_.epsilon <= 1"""

CHAPTER = Chapter(
    "Private learning",
    "Empirical risk minimisation: noise on the minimiser, in the objective, or in every gradient.",
    (
        Row(
            "Output perturbation: sensitivity",
            "One row moves the minimiser of L-Lipschitz losses and (Λ/2)‖w‖² by at most L/Λ.",
            "1/10, and a little for the solver",
            "0.1",
            """\
from tacit.learn.minimiser import OutputRelease
from tacit.learn.losses import SmoothLogistic
round(float(OutputRelease(SmoothLogistic(1), Fraction(10)).l2_sensitivity), 6)""",
            "0.100049",
            PAGE,
            f"{MINIMISERS}::test_the_minimiser_moves_by_no_more_than_declared",
            "=",
            1e-3,
        ),
        Row(
            "Output perturbation",
            "The minimiser with noise for that sensitivity; Laplace noise needs no δ.",
            "(1, 10⁻⁶)-DP",
            "True",
            MODEL.format("output"),
            "True",
            PAGE,
            f"{MINIMISERS}::test_output_densities_on_neighbours",
        ),
        Row(
            "Objective perturbation",
            "The minimiser of the objective with a random linear term.",
            "(1, 10⁻⁶)-DP",
            "True",
            MODEL.format("objective"),
            "True",
            PAGE,
            f"{MINIMISERS}::test_objective_densities_on_neighbours",
        ),
        Row(
            "Gradient perturbation",
            "Noisy gradient descent: every gradient is clipped, summed and noised.",
            "(1, 10⁻⁶)-DP",
            "True",
            MODEL.format("gradient"),
            "True",
            PAGE,
            "tests/learn/test_learn_gradient.py::test_noise_enters_once_per_release_and_epsilon_is_the_accountants",
        ),
        Row(
            "How many rows: the theorem",
            "n > √(d·ln(1/δ))/(ε·α²) rows give an excess loss of α, with the constant taken as 1.",
            "√(20·ln 10⁶)/0.05² = 6649.1",
            "math.floor(math.sqrt(20 * math.log(1e6)) / 0.05**2) + 1",
            'learn.rows_by_theorem(excess="0.05", epsilon=1, delta="1e-6", dimensions=20)',
            "6650",
            PAGE,
            "tests/cli/test_cli_plan.py::test_learning_shows_the_theorem_beside_the_measured_planner",
        ),
        Row(
            "How many rows: as measured",
            "On well-behaved data, for an excess error rate, far fewer do.",
            "the theorem's 6650",
            "6650",
            'learn.rows_needed(excess="0.05", epsilon=1, delta="1e-6", dimensions=20)',
            "612",
            PAGE,
            "tests/learn/test_learn_sample_size.py::test_a_fit_with_the_planned_rows_errs_about_as_planned",
            "<=",
        ),
        Row(
            "A person with several rows",
            "k rows of one person cost k times as much.",
            "3·1 = 3",
            "3",
            "tacit.PureDP(1).group(3).epsilon",
            "Fraction(3, 1)",
            PAGE,
            "tests/core/test_guarantees.py::test_groups_of_three",
        ),
    ),
)
