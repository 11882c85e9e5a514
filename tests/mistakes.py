"""Mistakes that new users make, each with the error it meets: its class, and the words that name cause and cure.

A row is a function whose name says what the mistake is and whose lines are what the user wrote; how rows are run is in
`making_mistakes`. `docs/mistakes.md` shows all of them with the message that is really raised.
"""

from __future__ import annotations

import json

import mistakes_in_models
import mistakes_in_structural_models
import mistakes_in_use

MISTAKES = [*mistakes_in_models.MISTAKES, *mistakes_in_structural_models.MISTAKES, *mistakes_in_use.MISTAKES]

if __name__ == "__main__":
    print(json.dumps({mistake.name: mistake.raised() for mistake in MISTAKES}))
