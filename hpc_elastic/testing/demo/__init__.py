"""`make demo`: one run that is preempted, requeued and finished, told on one screen."""
