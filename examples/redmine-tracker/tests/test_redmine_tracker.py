"""Redmine keeps the contract of every tracker."""

from __future__ import annotations

import pytest

from sortie.testing import TrackerContract


class TestRedmineTracker(TrackerContract):
    keeps_names = False  # it numbers issues itself

    @pytest.fixture(autouse=True)
    def server(self, redmine, project):
        self.redmine, self.project = redmine, project
        self.ids = {}

    async def store(self, directory, issues):
        for name in {*self.ids} - {issue.id for issue in issues}:
            self.redmine("DELETE", f"/issues/{self.ids.pop(name)}.json")
        for issue in issues:
            if issue.id in self.ids:
                status = self.redmine.statuses[issue.state]
                self.redmine.edit(self.ids[issue.id], subject=issue.title, status_id=status)
            else:
                fields = {"subject": issue.title, "description": issue.description}
                if issue.labels:  # an issue has one category
                    fields["category_id"] = self.redmine.category(self.project, issue.labels[0])
                self.ids[issue.id] = self.redmine.issue(self.project, state=issue.state, **fields)
                for comment in issue.comments or ():
                    self.redmine.edit(self.ids[issue.id], notes=comment.body)
                for blocker in issue.blocked_by:
                    self.redmine.block(self.ids[issue.id], self.ids[blocker.id])
        return dict(self.ids)

    def tracker(self, directory):
        return self.redmine.kind(self.redmine.settings(self.project))
