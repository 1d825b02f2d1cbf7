import sys

import pytest

from sortie.agents.command import CommandAgent
from sortie.agents.mock import MockAgent
from sortie.errors import ConfigurationError
from sortie.plugins import kinds, load_agent


@pytest.fixture
def plugin(tmp_path, monkeypatch):
    """Installs a package that offers one agent kind."""

    def install(kind, target, code):
        name = f"plugin_{tmp_path.name}"
        (tmp_path / f"{name}.py").write_text(code)
        info = tmp_path / f"{name}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[sortie.agents]\n{kind} = {name}:{target}\n")
        monkeypatch.syspath_prepend(tmp_path)
        return name

    yield install
    sys.modules.pop(f"plugin_{tmp_path.name}", None)


def test_the_built_in_kinds_are_there():
    assert {"command", "mock"} <= set(kinds()["agent"])
    assert load_agent("command") is CommandAgent
    assert load_agent("mock") is MockAgent


def test_an_unknown_kind_is_refused_with_the_known_ones():
    with pytest.raises(ConfigurationError, match=r'no agent of kind "claud".*command, .*mock'):
        load_agent("claud")


def test_a_package_can_add_a_kind(plugin):
    plugin("robot", "Robot", "class Robot: pass")
    assert "robot" in kinds()["agent"]
    assert load_agent("robot").__name__ == "Robot"


@pytest.mark.parametrize(("target", "code"), [("Robot", "1 / 0"), ("Missing", "class Robot: pass")])
def test_a_package_that_is_broken_is_named(plugin, target, code):
    name = plugin("robot", target, code)
    with pytest.raises(ConfigurationError, match=f'"robot".*{name}'):
        load_agent("robot")
