"""The certification as one page: a file that opens anywhere, loads nothing, runs nothing, and prints well.

Everything that came from a manifest, a game or a player is escaped, and what could reorder or hide text is shown as
what it is.
"""

from __future__ import annotations

import datetime as dt
import re
from collections import Counter
from collections.abc import Iterable
from html import escape

from .record import Certification, Evidence, StepRecord

__all__ = ["render_page"]

_HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb\ud800-\udfff]"
)

_STYLE = """
:root {
  color-scheme: light dark;
  --ink: #1c2430; --soft: #586476; --faint: #8b96a5; --paper: #f4f5f7; --card: #ffffff; --line: #dde1e7;
  --good: #1a7f4b; --good-wash: #e5f4ec; --bad: #b3261e; --bad-wash: #fbeae8; --wait: #8a6100; --wait-wash: #fcf3dc;
  --code: #f1f3f6;
}
@media (prefers-color-scheme: dark) {
  :root {
    --ink: #e4e8ee; --soft: #a5b0bf; --faint: #78838f; --paper: #12161c; --card: #1a2028; --line: #2d3540;
    --good: #5fd39a; --good-wash: #16301f; --bad: #ff8f84; --bad-wash: #3a1b19; --wait: #f0c25a; --wait-wash: #332910;
    --code: #10141a;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0; background: var(--paper); color: var(--ink); overflow-wrap: anywhere;
  font: 15px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif;
}
main { max-width: 62rem; margin: 0 auto; padding: 2.5rem 1.25rem 4rem; }
h1, h2, h3, p, ol, ul, dl, dd { margin: 0; padding: 0; }
ol, ul { list-style: none; }
code, pre, .mono { font-family: ui-monospace, "SF Mono", Menlo, Consolas, monospace; font-size: .86em; }
.tag { color: var(--faint); font-size: .75rem; letter-spacing: .09em; text-transform: uppercase; }
.card { background: var(--card); border: 1px solid var(--line); border-radius: 12px; }
header.card { display: grid; grid-template-columns: auto 1fr; gap: 1.1rem 1.5rem; align-items: center;
  padding: 1.75rem; }
header h1 { font-size: 1.7rem; line-height: 1.2; letter-spacing: -.01em; }
header h1 small { font-size: 1.05rem; font-weight: 400; color: var(--soft); }
header p { color: var(--soft); margin-top: .35rem; }
.seal {
  width: 6.6rem; height: 6.6rem; border-radius: 50%; display: grid; place-content: center; text-align: center;
  border: 3px double currentColor; font-weight: 650; font-size: .84rem; line-height: 1.25;
}
.seal b { display: block; font-size: 1.7rem; line-height: 1; margin-bottom: .15rem; }
.seal > div { max-width: 5.6rem; overflow-wrap: normal; }
.seal.good { color: var(--good); background: var(--good-wash); }
.seal.bad { color: var(--bad); background: var(--bad-wash); }
.seal.wait { color: var(--wait); background: var(--wait-wash); }
.track { grid-column: 1 / -1; display: grid; grid-template-columns: repeat(10, 1fr); gap: .3rem; }
.track a { display: block; text-decoration: none; border-radius: 6px; padding: .4rem .2rem; text-align: center; }
.track a:focus-visible, .step summary:focus-visible { outline: 2px solid var(--ink); outline-offset: 2px; }
.track b { display: block; font-size: .95rem; line-height: 1.2; }
.track span { font-size: .68rem; line-height: 1.2; }
.pass { color: var(--good); background: var(--good-wash); }
.fail { color: var(--bad); background: var(--bad-wash); }
.skip { color: var(--wait); background: var(--wait-wash); }
.said { padding: 1rem 1.3rem; margin-top: 1rem; }
.said h2 { font-size: .95rem; }
.said li { margin-top: .3rem; }
.said a { color: inherit; }
.said a code { color: var(--soft); }
.caveats { border-color: var(--wait); background: var(--wait-wash); }
.caveats h2 { color: var(--wait); }
.facts { display: grid; grid-template-columns: repeat(auto-fit, minmax(9.5rem, 1fr)); gap: 1rem 1.5rem;
  padding: 1.2rem 1.75rem; margin-top: 1rem; }
.facts dd { margin-top: .1rem; }
.facts .long { grid-column: 1 / -1; }
section > h2 { font-size: 1.05rem; margin: 2.2rem 0 .8rem; }
.step { margin-top: .6rem; }
.step > details > summary { cursor: pointer; padding: .95rem 1.3rem; display: grid; gap: .1rem .9rem;
  align-items: baseline; grid-template-columns: 4.2rem 1fr auto; list-style: none; }
.step > details > summary::-webkit-details-marker { display: none; }
.step > details > summary:hover h3 { text-decoration: underline; }
.pill { border-radius: 99px; padding: .06rem 0; font-size: .78rem; font-weight: 650; text-align: center; }
.step h3 { font-size: 1rem; display: inline; }
.step .number { color: var(--faint); font-variant-numeric: tabular-nums; }
.step .seconds { color: var(--faint); font-size: .82rem; font-variant-numeric: tabular-nums; }
.step .detail { grid-column: 2 / -1; color: var(--soft); }
.step .mend { color: var(--wait); font-size: .82rem; }
.step .body { padding: 0 1.3rem 1.2rem; border-top: 1px solid var(--line); }
.step .rules { display: grid; grid-template-columns: 4.2rem 1fr; gap: .3rem .9rem; margin: 1rem 0; font-size: .88rem;
  color: var(--soft); }
.step .rules dt { color: var(--faint); }
.hint { border-left: 3px solid var(--wait); padding: .1rem 0 .1rem .8rem; margin: 1rem 0; }
.evidence > li { display: grid; grid-template-columns: 4.2rem 1fr; gap: 0 .9rem; padding: .45rem 0;
  border-top: 1px solid var(--line); font-size: .9rem; }
.evidence .mark { font-size: .74rem; font-weight: 650; padding-top: .12rem; }
.evidence .mark.fail, .evidence .mark.skip, .evidence .mark.pass { background: none; }
.evidence .what { color: var(--faint); font-size: .8rem; }
.evidence .do { color: var(--soft); }
.more { margin-top: .3rem; }
.more > summary { cursor: pointer; color: var(--soft); font-size: .86rem; padding: .35rem 0; }
pre { background: var(--code); border: 1px solid var(--line); border-radius: 8px; padding: .7rem .9rem;
  margin: .5rem 0 0; max-height: 22rem; overflow: auto; white-space: pre-wrap; line-height: 1.45; }
.table { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: .88rem; }
th, td { text-align: left; vertical-align: top; padding: .5rem .8rem; border-top: 1px solid var(--line); }
th { color: var(--faint); font-weight: 500; border-top: 0; }
td { min-width: 7rem; }
footer { margin-top: 2.5rem; color: var(--faint); font-size: .8rem; }
@media (max-width: 44rem) {
  main { padding: 1rem .7rem 3rem; }
  header.card { grid-template-columns: 1fr; padding: 1.2rem; }
  .track { grid-template-columns: repeat(5, 1fr); }
  .track span { display: none; }
  .facts { padding: 1rem 1.2rem; grid-template-columns: repeat(2, 1fr); gap: .8rem 1rem; }
  .step > details > summary, .step .body { padding-left: .9rem; padding-right: .9rem; }
}
@media print {
  :root { --paper: #fff; --card: #fff; --ink: #000; --soft: #333; --faint: #555; --line: #bbb; --code: #fff;
    --good: #0b5d33; --good-wash: #fff; --bad: #8e1a13; --bad-wash: #fff; --wait: #5e4200; --wait-wash: #fff; }
  body { font-size: 10pt; }
  main { max-width: none; padding: 0; }
  .card { border-radius: 0; break-inside: avoid-page; }
  .step.card { break-inside: auto; }
  .step summary { break-after: avoid; }
  pre { max-height: none; }
}
"""

_WORDS = {"pass": "passed", "fail": "failed", "skip": "skipped"}
_GLYPHS = {"pass": "✓", "fail": "✕", "skip": "–"}
_SHOWN = 6
"""How many good answers are shown before the rest is folded away."""


def render_page(certification: Certification) -> str:
    """The page of a certification, as one HTML document.

    Args:
        certification: The record; nothing in it is trusted.
    """
    name = certification.coworld or "Certification"
    version = f" <small>{_text(certification.version)}</small>" if certification.version else ""
    title = f"{name} {certification.version} · {certification.verdict or 'not certified'}"
    parts = [
        "<!doctype html>",
        '<html lang="en">',
        "<head>",
        '<meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        # nothing may be loaded or run, whatever should ever get past the escaping
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; "
        "base-uri 'none'; form-action 'none'\">",
        '<meta name="referrer" content="no-referrer">',
        f"<title>{_text(title)}</title>",
        f"<style>{_STYLE}</style>",
        "</head>",
        "<body>",
        "<main>",
        '<header class="card">',
        _seal(certification),
        "<div>",
        f'<div class="tag">{_text(certification.transcript)}</div>',
        f"<h1>{_text(name)}{version}</h1>",
        f"<p>{_text(certification.statement)}</p>",
        "</div>",
        _track(certification),
        "</header>",
        _caveats(certification),
        _advice(certification),
        _facts(certification),
        "<section>",
        "<h2>Steps</h2>",
        "<ol>",
        *(_step(number, step) for number, step in enumerate(certification.steps, start=1)),
        "</ol>",
        "</section>",
        _sources(certification),
        _images(certification),
        _footer(certification),
        "</main>",
        "</body>",
        "</html>",
    ]
    return "\n".join(part for part in parts if part) + "\n"


def _text(text: str) -> str:
    """Text for the page: escaped, with characters that hide or reorder text shown by their number."""
    return escape(_HIDDEN.sub(lambda match: f"\N{REPLACEMENT CHARACTER}{ord(match[0]):04X}", text))


def _word(step: StepRecord) -> str:
    """A step's answer; one that another version gave is in its own words."""
    return _WORDS.get(step.status, step.status)


def _look(step: StepRecord) -> str:
    return step.status if step.status in _WORDS else "skip"


def _seal(certification: Certification) -> str:
    if certification.verdict is not None:
        kind, glyph, word = "good", "✓", certification.verdict
    elif certification.status == "interrupted":
        kind, glyph, word = "wait", "…", "Interrupted"
    elif certification.failed or certification.status == "completed":
        kind, glyph, word = "bad", "✕", "Not certified"
    else:
        kind, glyph, word = "wait", "?", "Not decided"
    return f'<div class="seal {kind}"><div><b aria-hidden="true">{glyph}</b>{_text(word)}</div></div>'


def _track(certification: Certification) -> str:
    boxes = (
        f'<a class="{_look(step)}" href="#{_text(step.id)}" title="{_text(step.id)}: {_text(_word(step))}">'
        f"<b>{_GLYPHS.get(step.status, '?')}</b><span>{_text(step.id)}</span></a>"
        for step in certification.steps
    )
    return f'<nav class="track" aria-label="Steps">{"".join(boxes)}</nav>'


def _caveats(certification: Certification) -> str:
    said = [*([certification.trouble] if certification.trouble else []), *certification.caveats]
    if not said:
        return ""
    title = "What this does not say" if certification.ok else "Worth knowing"
    items = "".join(f"<li>{_text(item)}</li>" for item in said)
    return f'<aside class="card said caveats"><h2>{title}</h2><ul>{items}</ul></aside>'


def _advice(certification: Certification) -> str:
    found = [(_text(step.id), item) for step in certification.steps for item in step.advice]
    if not found:
        return ""
    items = "".join(f'<li>{_text(item.message)} <a href="#{step}"><code>{step}</code></a></li>' for step, item in found)
    return f'<aside class="card said"><h2>Worth mending, although it fails nothing</h2><ul>{items}</ul></aside>'


def _facts(certification: Certification) -> str:
    tally = dict.fromkeys(_WORDS.values(), 0) | Counter(map(_word, certification.steps))
    facts = [
        ("Steps", ", ".join(f"{count} {word}" for word, count in tally.items() if count)),
        ("Backend", certification.backend),
        ("Began", _moment(certification.started_at)),
        ("Matriculated", _moment(certification.matriculated_at)),
        ("Graduated", _moment(certification.graduated_at)),
        ("Took", _duration(certification.seconds)),
        ("Run", certification.run_id),
    ]
    rows = "".join(
        f'<div><dt class="tag">{_text(name)}</dt><dd>{_text(value)}</dd></div>' for name, value in facts if value
    )
    long = [
        ("Scores", "", ", ".join(f"{who} {score:g}" for who, score in certification.standings)),
        ("Manifest", "mono", certification.manifest),
        ("SHA-256 of its content", "mono", certification.manifest_sha256),
    ]
    rows += "".join(
        f'<div class="long"><dt class="tag">{_text(name)}</dt><dd class="{kind}">{_text(value)}</dd></div>'
        for name, kind, value in long
        if value
    )
    return f'<dl class="card facts">{rows}</dl>'


def _moment(moment: dt.datetime | None) -> str:
    return moment.astimezone(dt.UTC).strftime("%Y-%m-%d %H:%M:%S UTC") if moment is not None else ""


def _duration(seconds: float) -> str:
    return f"{seconds * 1000:.0f} ms" if seconds < 1 else f"{seconds:.1f} s"


def _step(number: int, step: StepRecord) -> str:
    opened = "" if step.status == "pass" else " open"
    told = any(item.hint == step.hint for item in step.evidence)
    mend = f' <span class="mend">{len(step.advice)} worth mending</span>' if step.advice else ""
    reason = step.failure_reason or step.skip_reason
    code = f' <code class="number">{_text(reason)}</code>' if reason else ""
    body = [
        '<dl class="rules">',
        f"<dt>checks</dt><dd>{_text(step.checks)}</dd>",
        f"<dt>pass</dt><dd>{_text(step.criterion)}</dd>",
        f"<dt>how</dt><dd>{_text(step.how)}</dd>",
        "</dl>",
        f'<p class="hint">{_text(step.hint)}</p>' if step.hint and not told else "",
        _evidence(step.evidence),
    ]
    return (
        f'<li class="step card" id="{_text(step.id)}"><details{opened}><summary>'
        f'<span class="pill {_look(step)}">{_text(_word(step))}</span>'
        f'<span><span class="number">{number}</span> <h3>{_text(step.id)}</h3>{code}{mend}</span>'
        f'<span class="seconds">{_duration(step.seconds)}</span>'
        f'<span class="detail">{_text(step.detail)}</span>'
        f'</summary><div class="body">{"".join(body)}</div></details></li>'
    )


def _evidence(evidence: Iterable[Evidence]) -> str:
    bad = [item for item in evidence if not item.ok]
    good = [item for item in evidence if item.ok]
    bad.sort(key=lambda item: item.level != "required")
    shown = "".join(_row(item) for item in bad)
    if len(good) <= _SHOWN:
        shown += "".join(_row(item) for item in good)
        return f'<ul class="evidence">{shown}</ul>' if shown else ""
    shown = f'<ul class="evidence">{shown}</ul>' if shown else ""
    return (
        f'{shown}<details class="more"><summary>{len(good)} more that are right</summary>'
        f'<ul class="evidence">{"".join(_row(item) for item in good)}</ul></details>'
    )


def _row(item: Evidence) -> str:
    if item.level == "note":
        kind, word = "skip", "note"
    elif item.ok:
        kind, word = "pass", "right"
    else:
        kind, word = ("fail", "wrong") if item.level == "required" else ("skip", "advice")
    where = [item.code]
    if item.pointer:
        where.append(item.pointer)
    if item.line is not None:
        where.append(f"line {item.line}{f', column {item.column}' if item.column is not None else ''}")
    if item.artifact:
        where.append(item.artifact)
    hint = f'<div class="do">{_text(item.hint)}</div>' if item.hint else ""
    tail = f"<pre>{_text(item.log_tail)}</pre>" if item.log_tail.strip() else ""
    return (
        f'<li><span class="mark {kind}">{word}</span><div><div>{_text(item.message)}</div>{hint}'
        f'<div class="what mono">{_text(" · ".join(where))}</div>{tail}</div></li>'
    )


def _table(title: str, heads: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    body = "".join(f"<tr>{''.join(f'<td>{_text(cell)}</td>' for cell in row)}</tr>" for row in rows)
    head = "".join(f"<th>{_text(name)}</th>" for name in heads)
    return (
        f'<section><h2>{_text(title)}</h2><div class="card table"><table><thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div></section>"
    )


def _sources(certification: Certification) -> str:
    declared = [record for record in certification.sources if record.url is not None]
    if not declared:
        return ""
    rows = ((record.runnable, record.status.replace("_", " "), record.url or "", record.message) for record in declared)
    return _table("Sources", ("Program", "Status", "Reference", "What was seen"), rows)


def _images(certification: Certification) -> str:
    if not certification.images:
        return ""
    rows = (
        (record.image, record.digest, record.platform + (" (emulated)" if record.emulated else ""))
        for record in certification.images
    )
    return _table("Images", ("Image", "Digest", "Platform"), rows)


def _footer(certification: Certification) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in certification.versions.items())
    episode = f" The smoke episode's record is {certification.episode}." if certification.episode else ""
    return (
        "<footer>"
        f"<p>{_text(f'Transcript {certification.transcript}, SHA-256 {certification.transcript_sha256}.')}</p>"
        f"<p>{_text(f'The same as data: certification.json.{episode}')}</p>"
        f"<p>{_text(versions)}</p>"
        "</footer>"
    )
