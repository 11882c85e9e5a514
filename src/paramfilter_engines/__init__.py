"""Fleets on the engines that run them: `paramfilter_engines.spark` and `paramfilter_engines.ray`.

Both hash series to groups, give each task a range of groups, and keep the states in the versions of a
`paramfilter.tables.Versions`: a version is the version before it and the batch of its number, so a batch that is done
again gives the same bytes. An engine holds nothing that only that engine can read.
"""
