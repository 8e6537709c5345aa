"""URLs of the distribution, from where it is built: no address is written down that a fork or a mirror would make wrong.

On GitHub's machines the repository is known. Elsewhere ``TACIT_REPOSITORY=https://… python -m build`` says it, and without
it the distribution has no URLs.
"""

import os
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface


class ProjectUrls(MetadataHookInterface):
    """Adds the URLs to the metadata of a wheel."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Set the URLs; none where the repository is not known."""
        known = os.environ.get("TACIT_REPOSITORY", "").rstrip("/")
        if not known and "GITHUB_REPOSITORY" in os.environ:
            known = f"{os.environ['GITHUB_SERVER_URL']}/{os.environ['GITHUB_REPOSITORY']}"
        pages = {
            "Repository": "",
            "Documentation": "/blob/main/docs/index.md",
            "Changelog": "/blob/main/CHANGELOG.md",
            "Issues": "/issues",
            "Security": "/security/advisories/new",
        }
        metadata["urls"] = {name: known + place for name, place in pages.items()} if known else {}
