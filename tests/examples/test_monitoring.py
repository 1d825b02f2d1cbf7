"""`examples/monitoring` with a real Prometheus: it scrapes a real server, and every expression of the board and of
the alerts has an answer."""

from __future__ import annotations

import json
import re
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from sortie.web.metrics_catalogue import COUNTERS, GAUGES, HISTOGRAMS

from ..npm import TIME_TO_INSTALL
from ..servers import prometheus
from ..servers.prometheus import PrometheusServer, promtool
from ..web.api_scene import busy_server
from ..web.live_server import LiveServer

pytestmark = TIME_TO_INSTALL

MONITORING = Path(__file__).parents[2] / "examples" / "monitoring"
RULES = MONITORING / "sortie.rules.yml"
BOARD: dict[str, Any] = json.loads((MONITORING / "grafana-dashboard.json").read_bytes())
SECONDS_TO_SCRAPE = 50

# For each alert the series with which it must fire, and those with which it must not, a value for each minute.
ALERTS = {
    "SortieDown": ({'up{job="sortie"}': "0x20"}, {'up{job="sortie"}': "1x20", "sortie_service_up": "1x20"}),
    "SortieWaitsForPerson": (
        {"sortie_oldest_waiting_for_person_seconds": "14000+60x20"},
        {"sortie_oldest_waiting_for_person_seconds": "100+60x20"},
    ),
    "SortieBudgetNearlyUsed": (
        {'sortie_day_spent{unit="usd"}': "9.5x20", 'sortie_day_limit{unit="usd"}': "10x20"},
        {'sortie_day_spent{unit="usd"}': "8x20", 'sortie_day_limit{unit="usd"}': "10x20"},
    ),
    # One look in the time that is watched, which failed: the tracker is looked at every half hour.
    "SortiePollsFailing": (
        {
            'sortie_poll_cycles_total{result="error"}': "0x2 1x17",
            'sortie_poll_cycles_total{result="success"}': "7x20",
            'sortie_waiting_for_person{kind="tracker"}': "0x12 1x7",
        },
        {
            'sortie_poll_cycles_total{result="error"}': "0+1x20",
            'sortie_poll_cycles_total{result="success"}': "0+1x20",
            'sortie_waiting_for_person{kind="tracker"}': "0x14 1x5",
        },
    ),
    "SortieStoreCannotBeWritten": (
        {'sortie_waiting_for_person{kind="store"}': "1x20"},
        {'sortie_waiting_for_person{kind="store"}': "0x5 1 0x14"},
    ),
    "SortieAgentCannotRun": (
        {'sortie_waiting_for_person{kind="agent"}': "1x20"},
        {'sortie_waiting_for_person{kind="agent"}': "0x20", 'sortie_waiting_for_person{kind="error"}': "3x20"},
    ),
    # Late once, and once more: that is no slow machine.
    "SortieLoopLag": (
        {"sortie_event_loop_lag_seconds": "2x20"},
        {"sortie_event_loop_lag_seconds": "0.01x10 2 0.01x2 2 0.01x6"},
    ),
}


def board_expressions() -> list[str]:
    return [target["expr"] for panel in BOARD["panels"] for target in panel["targets"]]


def alert_expressions() -> dict[str, str]:
    (group,) = yaml.safe_load(RULES.read_text())["groups"]
    return {rule["alert"]: rule["expr"] for rule in group["rules"]}


@pytest.fixture(scope="module", autouse=True)
def installed() -> None:
    prometheus.require()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, installed: None) -> Iterator[LiveServer]:
    with busy_server(tmp_path_factory.mktemp("busy")) as started:
        yield started


@pytest.fixture(scope="module")
def scraped(server: LiveServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PrometheusServer]:
    """By the configuration that we ship, but for the address and the pace."""
    place = tmp_path_factory.mktemp("prometheus")
    shipped = (MONITORING / "prometheus.yml").read_text()
    assert shipped.count("127.0.0.1:7678") == 1
    changed = shipped.replace("127.0.0.1:7678", server.authority).replace("15s", "1s")
    (place / "prometheus.yml").write_text(changed)
    (place / RULES.name).write_bytes(RULES.read_bytes())
    with prometheus.running(place / "prometheus.yml", place) as started:
        deadline = time.monotonic() + SECONDS_TO_SCRAPE
        while not started.query("count_over_time(sortie_build_info[1m]) >= 2"):
            assert time.monotonic() < deadline, started.query("up")
            time.sleep(0.1)
        yield started


def test_promtool_has_nothing_to_say_about_our_metrics(server):
    assert promtool("check", "metrics", given=server.get("/metrics").body) == (0, "")


def test_promtool_takes_our_configuration_and_our_rules():
    for what, name in (("config", "prometheus.yml"), ("rules", "sortie.rules.yml")):
        code, said = promtool("check", what, str(MONITORING / name))
        assert code == 0, said


def test_every_expression_of_the_board_has_an_answer(scraped):
    expressions = board_expressions()
    assert len(expressions) > 25
    silent = []
    for expression in expressions:
        asked = expression.replace("$job", "sortie").replace("$instance", ".*")
        assert "$" not in asked, asked
        if not scraped.query(asked):
            silent.append(expression)
    assert silent == []


def values_of(scraped: PrometheusServer, query: str) -> list[str]:
    """What Grafana offers for a variable: it asks for the values of a label, as the query says."""
    found = re.fullmatch(r"label_values\((.+), (\w+)\)", query)
    assert found, query
    parameters = urllib.parse.urlencode({"match[]": found[1]})
    with urllib.request.urlopen(f"{scraped.url}/api/v1/label/{found[2]}/values?{parameters}", timeout=30) as answer:
        values: list[str] = json.load(answer)["data"]
    return values


def test_every_variable_of_the_board_has_values_to_choose_from(scraped, server):
    queries = {one["name"]: one["query"]["query"] for one in BOARD["templating"]["list"] if one["type"] == "query"}
    assert {*queries} == {"job", "instance"}
    assert values_of(scraped, queries["job"]) == ["sortie"]
    assert values_of(scraped, queries["instance"].replace("$job", "sortie")) == [server.authority]
    assert values_of(scraped, queries["instance"].replace("$job", "another")) == []


def test_every_expression_of_the_alerts_is_taken_and_what_they_compare_is_there(scraped):
    for name, expression in alert_expressions().items():
        scraped.query(expression)
        for part in expression.split(" or "):
            compared = re.sub(r" (>|==) [\d. *]+$", "", part)
            assert scraped.query(compared), f"{name}: {compared} has no answer"


def test_nothing_of_a_healthy_service_fires(scraped):
    assert scraped.alerts() == {}


def test_every_metric_that_board_and_alerts_name_is_one_of_ours():
    ours = {metric.sample for metric in (*COUNTERS, *GAUGES)} | {f"{one.sample}_bucket" for one in HISTOGRAMS}
    named = set(re.findall(r"\bsortie_\w+", " ".join([*board_expressions(), *alert_expressions().values()])))
    assert named - ours == set()


@pytest.mark.parametrize("alert", ALERTS)
def test_each_alert_fires_when_it_should_and_only_then(tmp_path, alert):
    def case(series: dict[str, str], *, fires: bool) -> dict[str, Any]:
        given = [{"series": _of_one_service(name), "values": said} for name, said in series.items()]
        return {
            "interval": "1m",
            "input_series": given,
            "promql_expr_test": [
                {
                    "expr": f'count(ALERTS{{alertname="{alert}",alertstate="firing"}}) or vector(0)',
                    "eval_time": "18m",
                    "exp_samples": [{"labels": "{}", "value": int(fires)}],
                }
            ],
        }

    fires, rests = ALERTS[alert]
    tests = {"rule_files": [str(RULES)], "tests": [case(fires, fires=True), case(rests, fires=False)]}
    (tmp_path / "test.yml").write_text(yaml.safe_dump(tests))
    code, said = promtool("test", "rules", str(tmp_path / "test.yml"))
    assert code == 0, said


def test_each_alert_has_a_case():
    assert ALERTS.keys() == alert_expressions().keys()


def _of_one_service(series: str) -> str:
    name, _, labels = series.rstrip("}").partition("{")
    given = [*(labels.split(",") if labels else []), 'instance="a:1"']
    return f"{name}{{{','.join(given)}}}"
