"""What people and programs are shown of a store, in the same words everywhere; each report in bounded time."""
