"""A device that reports every week: its permanent responses are kept in a file, which is whole at every moment."""

import json
import os
import tempfile
from pathlib import Path

from tacit.local import LongitudinalClient, LongitudinalResponse


class FileMemory(dict[str, tuple[int, int]]):
    """A dictionary that is safe on disk before an item counts as set."""

    def __init__(self, path: Path) -> None:
        super().__init__({key: tuple(item) for key, item in json.loads(path.read_text()).items()})
        self._path = path

    def __setitem__(self, key: str, item: tuple[int, int]) -> None:
        super().__setitem__(key, item)
        part = self._path.with_suffix(".part")
        with part.open("w") as file:
            part.chmod(0o600)
            json.dump(self, file)
            file.flush()
            os.fsync(file.fileno())
        part.replace(self._path)


def main() -> None:
    """Report one answer for a year, restart every week, and change the answer once."""
    weekly = LongitudinalResponse(categories=["well", "ill"], permanent="2", epsilon="0.5")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "memory.json"
        path.write_text("{}")  # once per person: an emptied memory is a second person's worth of loss
        for _ in range(52):
            LongitudinalClient(weekly, FileMemory(path)).report("well")
        device = LongitudinalClient(weekly, FileMemory(path))
        print(f"after 52 reports of one answer: {float(device.account().epsilon)}")
        device.report("ill")
        print(f"after another answer: {float(device.account().epsilon)}")


if __name__ == "__main__":
    main()
