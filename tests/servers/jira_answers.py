"""The records of a Jira site as its API tells them."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from .jira_store import PRIORITIES, Commented, JiraStore, StoredIssue, Transition, User

_CATEGORY_IDS = {"To Do": (2, "new"), "In Progress": (4, "indeterminate"), "Done": (3, "done")}
_STATUS_KEYS = ("id", "name", "self", "description", "iconUrl", "statusCategory")


class Answers:
    def __init__(self, store: JiraStore, url: str) -> None:
        self._store = store
        self._url = url

    def issue(self, issue: StoredIssue, fields: Collection[str]) -> dict[str, Any]:
        told = {
            "expand": "renderedFields,names,schema,operations,editmeta,changelog,versionedRepresentations",
            "id": str(issue.id),
            "self": f"{self._url}/rest/api/3/issue/{issue.id}",
            "key": issue.key,
        }
        every = {
            "summary": issue.summary,
            "status": self.status(issue.status),
            "description": issue.description,
            "priority": {"id": issue.priority, "name": PRIORITIES.get(issue.priority, "Strange"), "iconUrl": ""},
            "labels": issue.labels,
            "assignee": self.user(issue.assignee),
            "creator": self.user(issue.creator),
            "reporter": self.user(issue.creator),
            "issuetype": {"id": "10002", "name": issue.type, "subtask": False},
            "parent": self._brief(issue.parent) if issue.parent else None,
            "issuelinks": self._links(issue),
            "created": issue.created,
            "updated": issue.updated,
        }
        return {
            **told,
            "fields": {name: every[name] for name in fields if every.get(name) is not None or name in every},
        }

    def user(self, user: User | None) -> dict[str, Any] | None:
        if user is None:
            return None
        return {
            "self": f"{self._url}/rest/api/3/user?accountId={user.account_id}",
            "accountId": user.account_id,
            "displayName": user.name,
            "active": True,
            "timeZone": "Europe/Berlin",
            "accountType": user.kind,
        }

    def status(self, name: str) -> dict[str, Any]:
        category = self._store.states[name]
        number, key = _CATEGORY_IDS[category]
        number_of = 10_000 + [*self._store.states].index(name)
        return {
            "self": f"{self._url}/rest/api/3/status/{number_of}",
            "description": "",
            "iconUrl": f"{self._url}/",
            "name": name,
            "id": str(number_of),
            "statusCategory": {
                "self": f"{self._url}/rest/api/3/statuscategory/{number}",
                "id": number,
                "key": key,
                "colorName": "blue-gray",
                "name": category,
            },
        }

    def comment(self, issue: StoredIssue, comment: Commented) -> dict[str, Any]:
        author = self.user(comment.author)
        return {
            "self": f"{self._url}/rest/api/3/issue/{issue.id}/comment/{comment.id}",
            "id": comment.id,
            "author": author,
            "body": comment.body,
            "updateAuthor": author,
            "created": comment.created,
            "updated": comment.created,
            "jsdPublic": True,
        }

    def transition(self, number: int, transition: Transition, *, with_fields: bool) -> dict[str, Any]:
        told: dict[str, Any] = {
            "id": str(number),
            "name": transition.name or transition.to,
            "to": self.status(transition.to),
            "hasScreen": transition.has_screen or bool(transition.fields),
            "isGlobal": False,
            "isInitial": False,
            "isAvailable": True,
            "isConditional": False,
            "isLooped": False,
        }
        if with_fields:
            told["fields"] = {
                name.lower(): {
                    "required": True,
                    "schema": {"type": "string", "system": name.lower()},
                    "name": name,
                    "key": name.lower(),
                    "operations": ["set"],
                    "hasDefaultValue": False,
                }
                for name in transition.fields
            }
        return told

    def project(self, key: str) -> dict[str, Any]:
        return {
            "self": f"{self._url}/rest/api/3/project/10000",
            "id": "10000",
            "key": key,
            "name": f"Project {key}",
            "archived": self._store.projects[key],
            "projectTypeKey": "software",
            "simplified": False,
            "style": "classic",
            "isPrivate": False,
        }

    def issue_types(self) -> list[dict[str, Any]]:
        statuses = [self.status(name) for name in self._store.states]
        told = {"self": f"{self._url}/rest/api/3/issuetype/10002", "id": "10002", "name": "Task", "subtask": False}
        return [{**told, "statuses": statuses}]

    def link_types(self) -> dict[str, Any]:
        types = (
            ("1000", "Duplicate", "is duplicated by", "duplicates"),
            ("1010", "Blocks", "is blocked by", "blocks"),
        )
        place = f"{self._url}/rest/api/3/issueLinkType"
        return {
            "issueLinkTypes": [
                {"id": number, "name": name, "inward": inward, "outward": outward, "self": f"{place}/{number}"}
                for number, name, inward, outward in types
            ]
        }

    def _links(self, issue: StoredIssue) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        for number, (name, inward, outward) in enumerate(self._store.links):
            told = {
                "id": str(number),
                "self": f"{self._url}/rest/api/3/issueLink/{number}",
                "type": {
                    "id": "10000",
                    "name": name,
                    "inward": f"is {name} by",
                    "outward": name,
                    "self": self._url,
                },
            }
            if issue.id == outward and inward in self._store.issues:
                found.append({**told, "inwardIssue": self._brief(inward)})
            if issue.id == inward and outward in self._store.issues:
                found.append({**told, "outwardIssue": self._brief(outward)})
        return found

    def _brief(self, number: int) -> dict[str, Any]:
        issue = self._store.issues[number]
        told = {"id": str(issue.id), "key": issue.key, "self": f"{self._url}/rest/api/3/issue/{issue.id}"}
        return {**told, "fields": {"summary": issue.summary, "status": self.status(issue.status)}}


def refusal(*messages: str, **errors: str) -> dict[str, Any]:
    return {"errorMessages": [*messages], "errors": errors}
