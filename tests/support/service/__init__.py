"""What tests of the service share: logs in memory, a small table, and processes that are killed."""
