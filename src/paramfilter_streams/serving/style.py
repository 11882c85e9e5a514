"""The style sheet of the pages. Wide screens get tables; screens below 640 px get one block for each row."""

STYLE = """
:root { color-scheme: light; --ink: #1f2933; --soft: #52606d; --line: #dde3ea; --blue: #2b5c8a; --band: #c9dcee }
* { box-sizing: border-box }
body { margin: 0; font: 15px/1.5 system-ui, "DejaVu Sans", sans-serif; color: var(--ink); background: #f6f8fa }
main { max-width: 980px; margin: 0 auto; padding: 28px 20px 64px }
h1 { font-size: 24px; line-height: 1.25; margin: 0; overflow-wrap: anywhere }
h2 { font-size: 17px; margin: 32px 0 10px } h3 { font-size: 15px; margin: 0 0 6px }
h3 .note { font-weight: 400; margin-left: 8px }
header { display: flex; align-items: flex-start; justify-content: space-between; gap: 16px; margin-bottom: 20px }
header p { margin: 4px 0 0 }
a { color: var(--blue) } p, .note, dd { color: var(--soft) } dt { font-weight: 600; margin-top: 8px } dd { margin: 0 }
.state { padding: 2px 10px; border-radius: 999px; font-weight: 600; font-size: 13px; white-space: nowrap }
.good { background: #dcf1e3; color: #1d6b3a } .bad { background: #fbe0dd; color: #9b2c20 }
.watch { background: #fdf0d0; color: #7a4d05 }
.tiles { display: grid; grid-template-columns: repeat(5, 1fr); gap: 10px }
.tile, .card, details { background: #fff; border: 1px solid var(--line); border-radius: 8px; padding: 10px 14px }
.tile b { display: block; font-size: 20px; font-variant-numeric: tabular-nums }
.tile span { color: var(--soft); font-size: 13px }
.card, details { margin-bottom: 14px } details { margin-top: 14px } summary { cursor: pointer; color: var(--blue) }
form { display: flex; flex-wrap: wrap; gap: 10px 14px; align-items: end; margin-bottom: 12px }
label { font-size: 13px; color: var(--soft) } form input, form select, form button { display: block; font: inherit }
form input, form select, form button { height: 34px }
form input, form select { padding: 0 8px; border: 1px solid #9aa5b1; border-radius: 6px; background: #fff }
form button { padding: 0 16px; border: 0; border-radius: 6px; background: var(--blue); color: #fff }
.scroll { overflow-x: auto; background: #fff; border: 1px solid var(--line); border-radius: 8px }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums }
th, td { text-align: right; padding: 7px 14px; border-top: 1px solid var(--line); white-space: nowrap }
thead th { border-top: 0; color: var(--soft); font-weight: 600; font-size: 13px }
th:first-child, td:first-child { text-align: left } td:first-child { overflow-wrap: anywhere }
nav { display: flex; gap: 16px; margin: 12px 0 } svg { display: block; width: 100%; height: auto }
.narrow { display: none }
@media (max-width: 640px) {
  main { padding: 18px 14px 48px } header { flex-direction: column; gap: 8px }
  .tiles { grid-template-columns: repeat(3, 1fr); gap: 8px } .tile { padding: 8px 10px }
  .tile:last-child { grid-column: 1 / -1 } .tile b { font-size: 17px }
  .wide, thead { display: none } .narrow { display: block } .scroll { border: 0; background: none }
  table, tbody, tr, td { display: block } tr { background: #fff; border: 1px solid var(--line); border-radius: 8px;
    padding: 8px 12px; margin-bottom: 8px }
  td { display: flex; justify-content: space-between; gap: 12px; padding: 2px 0; border: 0; white-space: normal }
  td:first-child { font-weight: 600 } td::before { content: attr(data-label); color: var(--soft); font-weight: 400 }
  form label { flex: 1 1 40% } form input, form select { width: 100% } .card { padding: 10px }
}
"""
