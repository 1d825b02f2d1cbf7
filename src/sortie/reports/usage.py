"""Usage by day, by issue, by agent and model, and today's against the daily limit.

A run that reported no usage is counted as unmeasured, never as free.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from sqlite3 import Connection
from typing import Any

from msgspec import Struct

from ..core.model import Usage
from ..core.policy import Limits, Spent
from ..store.load import snapshot

MOST_DAYS = 366
TOP = 20

_SUMS = """coalesce(sum(runs), 0), coalesce(sum(unmeasured), 0), coalesce(sum(input_tokens), 0),
           coalesce(sum(output_tokens), 0), coalesce(sum(cache_read_tokens), 0), total(cost_usd)"""


class Amount(Struct, frozen=True):
    """`unmeasured` of the `runs` are not in the other numbers. What was read from a cache is part of the input."""

    runs: int = 0
    unmeasured: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cost_usd: float = 0.0

    @property
    def total_tokens(self) -> int:
        return self.input_tokens + self.output_tokens

    @property
    def new_tokens(self) -> int:
        """Without what came from a cache."""
        return max(self.total_tokens - self.cache_read_tokens, 0)

    @property
    def is_known(self) -> bool:
        """Whether anything was told, or there was nothing to tell; else the other numbers are no zeros."""
        return bool(self.total_tokens or self.cost_usd) or not self.unmeasured

    @property
    def is_priced(self) -> bool:
        """Whether what was told has a price."""
        return bool(self.cost_usd) or not self.total_tokens


class UsageOfDay(Struct, frozen=True, kw_only=True):
    day: str
    used: Amount


class UsageOfIssue(Struct, frozen=True, kw_only=True):
    issue_id: str
    identifier: str
    used: Amount


class UsageOfModel(Struct, frozen=True, kw_only=True):
    """`model` is empty where the agent did not name one."""

    agent: str
    model: str
    used: Amount


class UsageReport(Struct, frozen=True, kw_only=True):
    """`days` has every day of the time, the oldest first; `issues` those that cost most, and `other_issues` what
    all others used together, who are `other_count`. `today` is what the budget counts, charged while runs go on;
    its limit `per_day` is None where it is not known."""

    first_day: str
    last_day: str
    total: Amount
    days: list[UsageOfDay]
    issues: list[UsageOfIssue]
    other_issues: Amount
    other_count: int
    models: list[UsageOfModel]
    today: Spent
    per_day: Limits | None

    @property
    def unpriced(self) -> list[str]:
        """The agents of which no price is known."""
        return sorted({one.agent or "unknown" for one in self.models if not one.used.is_priced})


def usage_report(
    db: Connection, *, today: str, days: int = 30, top: int = TOP, per_day: Limits | None = None
) -> UsageReport:
    """Of the last so many days, this one included; `today` as `day_of` writes it."""
    days = min(max(days, 1), MOST_DAYS)
    last = datetime.strptime(today, "%Y-%m-%d").replace(tzinfo=UTC)
    wanted = [(last - timedelta(days=back)).strftime("%Y-%m-%d") for back in range(days - 1, -1, -1)]
    span = (wanted[0], wanted[-1])
    with snapshot(db):
        by_day = {
            day: Amount(*sums)
            for day, *sums in db.execute(
                f"SELECT day, {_SUMS} FROM usage WHERE day BETWEEN ? AND ? GROUP BY day", span
            )
        }
        by_model = db.execute(
            f"""SELECT agent, model, {_SUMS} FROM usage WHERE day BETWEEN ? AND ?
                GROUP BY agent, model ORDER BY total(cost_usd) DESC, sum(input_tokens + output_tokens) DESC""",
            span,
        ).fetchall()
        by_issue = db.execute(
            f"""SELECT issue_id, max(identifier), {_SUMS} FROM usage WHERE day BETWEEN ? AND ?
                GROUP BY issue_id
                ORDER BY total(cost_usd) DESC, sum(input_tokens + output_tokens) DESC, issue_id LIMIT ?""",
            (*span, top),
        ).fetchall()
        named = ", ".join("?" * len(by_issue))
        other_count, *rest = db.execute(
            f"""SELECT count(DISTINCT issue_id), {_SUMS} FROM usage
                WHERE day BETWEEN ? AND ? AND issue_id NOT IN ({named})""",
            (*span, *(row[0] for row in by_issue)),
        ).fetchone()
        spent = db.execute(
            "SELECT sessions, turns, tokens, usd FROM budget WHERE scope = 'day' AND key = ?", (today,)
        ).fetchone()
    return UsageReport(
        first_day=span[0],
        last_day=span[1],
        total=_sum(by_day.values()),
        days=[UsageOfDay(day=day, used=by_day.get(day, Amount())) for day in wanted],
        issues=[UsageOfIssue(issue_id=row[0], identifier=row[1], used=Amount(*row[2:])) for row in by_issue],
        other_issues=Amount(*rest),
        other_count=other_count,
        models=[UsageOfModel(agent=row[0], model=row[1], used=Amount(*row[2:])) for row in by_model],
        today=Spent(*spent) if spent else Spent(),
        per_day=per_day,
    )


def lately_used(db: Connection, *, since: str) -> tuple[list[str], list[str]]:
    """The agents that ran from this day on, and the models that they named."""
    rows = db.execute("SELECT DISTINCT agent, model FROM usage WHERE day >= ?", (since,)).fetchall()
    agents, models = ({row[place] for row in rows} - {""} for place in (0, 1))
    return sorted(agents), sorted(models)


def usage_of_issue(db: Connection, issue_id: str) -> Amount:
    return Amount(*db.execute(f"SELECT {_SUMS} FROM usage WHERE issue_id = ?", (issue_id,)).fetchone())


def spent_on_issue(db: Connection, issue_id: str) -> Spent:
    """What its budget counts, which is charged while a run goes on."""
    row = db.execute(
        "SELECT sessions, turns, tokens, usd FROM budget WHERE scope = 'issue' AND key = ?", (issue_id,)
    ).fetchone()
    return Spent(*row) if row else Spent()


def _sum(amounts: Any) -> Amount:
    columns = [*zip(*(_fields(one) for one in amounts), strict=True)]
    return Amount(*map(sum, columns)) if columns else Amount()


def _fields(amount: Amount) -> tuple[float, ...]:
    return tuple(getattr(amount, name) for name in Amount.__struct_fields__)


def charged_to(db: Connection, run_id: str) -> Usage | None:
    """What a run that goes on was charged so far; None where it was charged nothing yet."""
    sums = ", ".join(f"total(json_extract(data, '$.usage.{name}'))" for name in Usage.__struct_fields__)
    charges = f"""SELECT count(*), {sums} FROM events INDEXED BY events_of_run
                  WHERE run_id = ? AND kind = 'charge' AND json_valid(data)"""
    count, read, written, cached, cost = db.execute(charges, (run_id,)).fetchone()
    return Usage(int(read), int(written), int(cached), cost) if count else None
