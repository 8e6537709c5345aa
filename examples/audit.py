"""A mechanism that claims too much is caught, with neighbours that are proposed for you."""

from tacit import Laplace
from tacit.audit import replay_neighbours


def sloppy(ages: list[int]) -> object:
    """Forget to clip, and declare the sensitivity of clipped ages."""
    return Laplace(epsilon="0.5", l1_sensitivity=100).release(sum(ages))


def careful(ages: list[int]) -> object:
    """Clip, and add up what was clipped."""
    return Laplace(epsilon="0.5", l1_sensitivity=100).release(sum(min(max(age, 0), 100) for age in ages))


def main() -> None:
    """Run both on a small table and on its neighbours."""
    for release in (sloppy, careful):
        reports = list(replay_neighbours(release, [31, 45, 27]))
        broken = [report.how for report in reports if not report]
        print(f"{release.__name__}: {len(reports)} neighbours tried, {len(broken)} give it away: {broken[:2]}")


if __name__ == "__main__":
    main()
