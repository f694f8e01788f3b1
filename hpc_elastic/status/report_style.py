"""How the page of a run looks: light or dark as the reader's screen is."""

from __future__ import annotations

from typing import Final

STYLE: Final = """
:root { color-scheme: light dark; --ink: #1c2430; --dim: #5b6675; --line: #d8dde4; --paper: #fff;
  --useful: #1b7f5c; --repeated: #c8394f; --saving: #e0a100; --restarting: #7a6bb8; --waiting: #b9c1cc; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6eaf0; --dim: #9aa5b4; --line: #333c48;
  --paper: #14181f; --waiting: #4a5462; } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); margin: 2rem auto;
  max-width: 68rem; padding: 0 1rem; }
h1 { font-size: 1.5rem; margin: 0; } h2 { font-size: 1.1rem; margin: 2rem 0 .5rem; }
p.state { font-size: 1.1rem; margin: .2rem 0 0; } .dim { color: var(--dim); }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: .25rem .8rem .25rem 0;
  border-bottom: 1px solid var(--line); vertical-align: top; }
td code, td.time { white-space: nowrap; }
th { font-weight: 600; color: var(--dim); } td.number, th.number { text-align: right; }
code, pre { font: 13px/1.45 ui-monospace, monospace; overflow-wrap: anywhere; }
.bar { display: flex; height: 1.6rem; border-radius: 4px; overflow: hidden; margin: .5rem 0; }
.swatch { display: inline-block; width: .8em; height: .8em; border-radius: 2px; margin-right: .5em; }
.useful { background: var(--useful); fill: var(--useful); }
.repeated { background: var(--repeated); fill: var(--repeated); }
.saving { background: var(--saving); fill: var(--saving); }
.restarting { background: var(--restarting); fill: var(--restarting); }
.waiting { background: var(--waiting); fill: var(--waiting); }
svg { width: 100%; height: auto; } svg text { fill: var(--ink); font: 12px system-ui, sans-serif; }
svg text.dim { fill: var(--dim); } .axis { stroke: var(--line); }
.notice { stroke: var(--repeated); stroke-width: 1.5; }
.lost { stroke: var(--repeated); stroke-width: 2.5; } .save { fill: var(--saving); stroke: var(--paper); }
"""
