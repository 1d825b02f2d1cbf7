"""One directory for each issue: named, contained, hooked, archived before it goes."""
