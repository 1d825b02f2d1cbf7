"""Reports: what commands, pages and the API show of a store, in the same words everywhere; each in bounded time."""
