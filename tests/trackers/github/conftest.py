"""A GitHub of its own for each test."""

from __future__ import annotations

from tests.servers.github_scene import github as github
