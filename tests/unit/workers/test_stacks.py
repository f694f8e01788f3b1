"""The line that a person looks for in a dump of stacks."""

from __future__ import annotations

from typing import Final

import pytest

from hpc_elastic.workers.stacks import place_in

LOADER: Final = """Thread 0x00007f1c2ffff6c0 (most recent call first):
  File "/usr/lib/python3.11/threading.py", line 324 in wait
  File "/home/me/loader.py", line 7 in feed
  File "/usr/lib/python3.11/threading.py", line 1002 in _bootstrap

"""
MAIN: Final = """Current thread 0x00007f1c3a7a3040 (most recent call first):
  File "/home/me/train.py", line 6 in spin
  File "/home/me/train.py", line 12 in <module>
  File "/opt/x/hpc_elastic/workers/bootstrap.py", line 147 in _run_script
"""


@pytest.mark.parametrize(
    ("text", "place"),
    [
        (MAIN, "/home/me/train.py line 6 in spin"),
        (LOADER + MAIN, "/home/me/train.py line 6 in spin"),
        ("step 5\n" + LOADER + MAIN + "and more words\n", "/home/me/train.py line 6 in spin"),
        (MAIN.replace("Current thread", "Thread"), "/home/me/train.py line 6 in spin"),
        (
            MAIN.replace(
                '/home/me/train.py", line 6', '/env/lib/python3.12/site-packages/torch/x.py", line 6'
            ),
            "/home/me/train.py line 12 in <module>",
        ),
        (
            'Thread 0x7f (most recent call first):\n  File "<frozen importlib>", line 5 in _load\n',
            "<frozen importlib> line 5 in _load",
        ),
        ("", ""),
        ("Current thread 0x7f (most recent call first):\n  <no Python frame>\n", ""),
        ('Traceback:\n  File "/home/me/train.py", line 6, in spin\n', ""),
    ],
)
def test_the_users_innermost_line_of_the_main_thread_is_named(text: str, place: str) -> None:
    assert place_in(text) == place
