"""Placeholder."""
from __future__ import annotations
import json
def make(schemas): return {}
def dump(x): return json.dumps(x)
def differences(a,b): return []
