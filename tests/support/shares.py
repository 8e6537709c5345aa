"""Modules of tests as they are shared out among processes: a module is imported only where its tests run.

Otherwise every process imports all modules and makes all tests before the first one runs, which takes half a minute of
each. Here a process collects one :class:`Share` per module, or two where a module has tests of Spark beside others; a
share imports its module when its turn comes, runs the tests one by one, and each of them reports for itself.
"""

from __future__ import annotations

import gc
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from _pytest.runner import runtestprotocol

from support.schedule import SPARK

__all__ = ["ModuleShares", "Share", "collects_late", "set_modules_aside"]

_TEST_OF_SPARK = re.compile(r"^def (test_(\w*_)?spark)", re.MULTILINE)
#: Options that choose among tests, which have to be known for that.
_CHOOSE = ("keyword", "markexpr", "deselect", "lf", "failedfirst", "stepwise", "collectonly")


def collects_late(config: pytest.Config) -> bool:
    """Whether this is one of several processes, and all tests of the given modules are to be run."""
    if not hasattr(config, "workerinput") or any("::" in argument for argument in config.args):
        return False
    return not any(getattr(config.option, name, None) for name in _CHOOSE)


def set_modules_aside() -> None:
    """Spare the garbage collector all that exists now, and call it less often; a tenth of the time of all tests.

    Modules and what they define stay to the end, and looking through them again and again finds nothing. A process that
    ends gives them back, or extension modules complain of what was never freed.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 50, 1_000)


class Share(pytest.Item):
    """Tests of one module that one process runs: all, those of Spark, or the others."""

    problem: BaseException | None = None

    def tests(self) -> list[pytest.Item]:
        """Import the module and make its tests, as if it alone were collected."""
        assert self.parent is not None
        module = pytest.Module.from_parent(self.parent.parent, path=self.path)  # type: ignore[arg-type]
        items = list(self.session.genitems(module))
        self.config.hook.pytest_collection_modifyitems(session=self.session, config=self.config, items=items)
        if self.name == "all":
            return items
        return [item for item in items if bool(SPARK.search(item.nodeid)) == (self.name == "test_spark")]

    def run(self, nextitem: pytest.Item | None) -> None:
        """Run the tests in the place of this one; a module that cannot be collected fails."""
        try:
            items = self.tests()
        except Exception as problem:
            self.problem = problem
            runtestprotocol(self, nextitem=nextitem)
            return
        set_modules_aside()
        place = self.session.items.index(self)
        try:
            # What stays set up after the last test is what the next share needs as well.
            for item, following in zip(items, [*items[1:], nextitem], strict=False):
                # xdist holds a report against the test that it gave out.
                self.session.items[place] = item
                item.ihook.pytest_runtest_protocol(item=item, nextitem=following)
                if self.session.shouldfail or self.session.shouldstop:
                    break
        finally:
            self.session.items[place] = self

    def runtest(self) -> None:
        """Fail as the collection did."""
        assert self.problem is not None
        raise self.problem

    def reportinfo(self) -> tuple[Path, None, str]:
        """Where it stands."""
        return self.path, None, self.nodeid


class ModuleShares(pytest.File):
    """A module whose tests are not made yet."""

    def collect(self) -> Iterator[Share]:
        """One share, or two: Spark runs in one process for all of its tests."""
        mixed = not SPARK.search(f"{self.nodeid}::") and _TEST_OF_SPARK.search(self.path.read_text())
        for name in ("test_spark", "others") if mixed else ("all",):
            yield Share.from_parent(self, name=name)


os.register_at_fork(after_in_child=gc.unfreeze)


def pytest_unconfigure() -> None:
    """Give back what was set aside."""
    gc.unfreeze()


def pytest_pycollect_makemodule(module_path: Path, parent: Any) -> ModuleShares | None:
    """Put off the import of a module."""
    return ModuleShares.from_parent(parent, path=module_path) if collects_late(parent.config) else None


def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """Run a share's tests instead of the share."""
    if not isinstance(item, Share):
        return None
    item.run(nextitem)
    return True
