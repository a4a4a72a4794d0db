"""Stands in for a query child that never answers."""

import time

time.sleep(60)
