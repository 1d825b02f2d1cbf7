"""Which authors are trusted: issues and comments of every tracker are marked here, before anything reads them.

An entry of `tracker.trusted_authors` or `tracker.excluded_authors` is a name, or `@` and what the author is to the
project (`@MEMBER`). Trust is narrow: where a tracker has names that nobody else can take (`author_id`), only these
count, because anybody can call himself Ann. Exclusion is wide: either name is enough, with or without an `@`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

from ..core.model import Comment, Finding, Issue
from ..core.observe import mark_of
from ..errors import TrackerError
from ..protocol.foreign_text import escape, shortened
from .tracker import CallUse, Candidates, Tracker, TrackerKind, TrackerSettings, marked_comments

T = TypeVar("T", Issue, Comment)
# By issue id: the issue as the tracker told it, and what was made of it, or why it is left alone.
Known = dict[str, tuple[Issue, Issue | str]]

LONGEST_NAME = 100
# How the marks of our own comments end in which an agent's words are.
REPORTS = (".completion", ".failure")


def judged_tracker(kind: TrackerKind, settings: TrackerSettings) -> Tracker:
    """The tracker of these settings. Where there is nobody to judge it is that tracker itself, without a cost."""
    tracker, rule = kind.from_settings(settings), rule_for(kind, settings)
    return JudgedTracker(tracker, rule) if rule else tracker


def rule_for(kind: TrackerKind, settings: TrackerSettings) -> Rule | None:
    """By the workflow, else by the kind; None where neither names anybody: then all text is the owner's own."""
    trusted: Iterable[str] | None = settings.trusted_authors or getattr(kind, "trusted_by_default", None)
    if trusted is None and not settings.excluded_authors:
        return None
    return Rule(
        None if trusted is None else frozenset(map(_key, trusted)),
        frozenset(map(_bare, settings.excluded_authors)),
        is_local=not hasattr(kind, "trusted_by_default"),
    )


class Rule(Struct, frozen=True):
    """`trusted` is None where nobody's word is doubted; `excluded` are names and associations alike. `is_local`: no
    stranger can write to the tracker, so an issue that names no author is the owner's own."""

    trusted: frozenset[str] | None
    excluded: frozenset[str]
    is_local: bool = False

    def candidates(self, answer: Candidates, known: Known) -> tuple[Candidates, Known]:
        """Judged, and what is known then. An issue that is the very object of before is not judged again."""
        now: Known = {}
        for issue in answer.issues:
            before = known.get(issue.id)
            now[issue.id] = before if before and before[0] is issue else (issue, self.verdict(issue))
        issues = tuple(found for _, found in now.values() if isinstance(found, Issue))
        refusals = (found for _, found in now.values() if isinstance(found, str))
        return replace(answer, issues=issues, problems=(*answer.problems, *refusals)), now

    def verdict(self, issue: Issue) -> Issue | str:
        """With what is thought of its author and of those of its comments, without the comments of the excluded;
        for an issue of theirs, why it is left alone."""
        if self._excludes(issue):
            return _left_alone(issue, f"its author {_shown(issue.author or issue.author_id)}")
        comments = issue.comments and tuple(self._heard(one) for one in issue.comments if not self._excludes(one))
        return replace(self._judged(issue), comments=comments)

    def all_judged(self, comments: Iterable[Comment]) -> tuple[Comment, ...]:
        """Those of the excluded too; their word does not count."""
        return tuple(replace(one, trusted=False) if self._excludes(one) else self._judged(one) for one in comments)

    def _heard(self, comment: Comment) -> Comment:
        """What an agent said stays its word where we passed it on: a stranger may have made it say so."""
        judged = self._judged(comment)
        is_report = judged.trusted and (mark_of(comment.body) or "").endswith(REPORTS)
        return replace(judged, trusted=False) if is_report else judged

    def _judged(self, text: T) -> T:
        return text if self.trusted is None else replace(text, trusted=self._is_trusted(text, self.trusted))

    def _is_trusted(self, text: Issue | Comment, trusted: frozenset[str]) -> bool:
        name = text.author_id or text.author
        # A name that begins with an @ is no more than a name: it does not make its bearer a member.
        is_named = not name.startswith("@") and _key(name) in trusted
        is_associated = bool(text.association) and f"@{_key(text.association)}" in trusted
        is_owners = self.is_local and not name and isinstance(text, Issue)
        return is_owners or (bool(name) and (is_named or is_associated))

    def _excludes(self, text: Issue | Comment) -> bool:
        names = (text.author, text.author_id, text.association)
        return not self.excluded.isdisjoint(_bare(name) for name in names if name)


class JudgedTracker:
    """What another tracker tells, judged by a rule.

    Issues of excluded authors are not there for anybody who reads. Writing is not held back: who wants to write has
    read the issue before, or ends a run that began before its author was excluded.
    """

    def __init__(self, tracker: Tracker, rule: Rule) -> None:
        self._tracker = tracker
        self._rule = rule
        self._known: Known = {}
        self._told: Candidates | None = None
        self._judged = Candidates(())

    async def fetch_candidates(self) -> Candidates:
        """`changed` stays true as it is: what is thought of an issue changes only with the issue."""
        told = await self._tracker.fetch_candidates()
        if told is not self._told:
            self._told = told
            self._judged, self._known = self._rule.candidates(told, self._known)
        return self._judged

    async def fetch_issue(self, issue_id: str) -> Issue:
        issue = await self._tracker.fetch_issue(issue_id)
        verdict = self._rule.verdict(issue)
        if isinstance(verdict, str):
            # Agents read this too, and a name is text that its owner chose.
            raise TrackerError(TrackerError.NOT_FOUND, _left_alone(issue, "its author"))
        return verdict

    async def fetch_marked(self, issue_id: str) -> tuple[Comment, ...]:
        """The account that we write with may be among the excluded, by what it is to the project."""
        return self._rule.all_judged(await marked_comments(self._tracker, issue_id))

    async def fetch_states(self, issue_ids: Collection[str]) -> dict[str, str]:
        """Without those that the last look left alone."""
        seen = [issue_id for issue_id in issue_ids if not self._is_left_alone(issue_id)]
        return await self._tracker.fetch_states(seen) if seen else {}

    async def transition(self, issue_id: str, state: str) -> None:
        await self._tracker.transition(issue_id, state)

    async def comment(self, issue_id: str, body: str) -> None:
        await self._tracker.comment(issue_id, body)

    def watched_files(self) -> tuple[Path, ...]:
        return self._tracker.watched_files()

    async def examine(self) -> Sequence[Finding]:
        return await self._tracker.examine() if hasattr(self._tracker, "examine") else ()

    def call_use(self) -> CallUse | None:
        return self._tracker.call_use() if hasattr(self._tracker, "call_use") else None

    async def aclose(self) -> None:
        await self._tracker.aclose()

    def _is_left_alone(self, issue_id: str) -> bool:
        return issue_id in self._known and isinstance(self._known[issue_id][1], str)


def _left_alone(issue: Issue, author: str) -> str:
    return f"Issue {_shown(issue.identifier or issue.id)} is skipped: {author} is in tracker.excluded_authors."


def _shown(name: str) -> str:
    return shortened(escape(name), LONGEST_NAME)


def _key(name: str) -> str:
    """Without regard to case. A letter that becomes one of ASCII only in lower case stays what it is."""
    lower = name.lower()
    return lower if lower.isascii() == name.isascii() else name


def _bare(name: str) -> str:
    return _key(name.removeprefix("@"))
