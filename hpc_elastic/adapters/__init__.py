"""The worker API inside training frameworks: one module for each, which imports it where it is used.

An adapter does three things: it resumes from the latest whole checkpoint, it saves in the framework's own
format, and it lets every rank stop after the same step.
"""

from __future__ import annotations
