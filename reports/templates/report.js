"use strict";

const byId = (id) => document.getElementById(id);
const announce = (text) => { byId("announcement").textContent = text; };
const many = (count, one) => `${count.toLocaleString("en")} ${one}${count === 1 ? "" : "s"}`;

byId("no-script").hidden = true;

/* Tables that are stacked on a narrow screen keep their roles, which `display: block` would take. */
for (const [selector, role] of [
  ["table", "table"], ["thead, tbody", "rowgroup"], ["tr", "row"], ["td", "cell"],
  ["th[scope=col]", "columnheader"], ["th[scope=row], th[scope=rowgroup]", "rowheader"],
]) {
  for (const element of document.querySelectorAll(selector)) element.setAttribute("role", role);
}

/* Copying. A page opened as a file may have no clipboard; then what is selected is copied. */
async function copied(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const area = document.createElement("textarea");
    area.value = text;
    area.className = "unseen";
    document.body.append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    return done;
  }
}

/* What a button copies that has no text beside it. */
const commands = new WeakMap();

document.addEventListener("click", async (event) => {
  const button = event.target.closest("button.copy");
  if (!button) return;
  const text = commands.get(button) ?? button.parentElement.querySelector("code").textContent;
  const done = await copied(text);
  button.focus();
  button.classList.toggle("done", done);
  announce(done ? "Copied" : "Could not copy: select the command and copy it by hand");
  setTimeout(() => button.classList.remove("done"), 1500);
});

/* What a link leads to is unfolded. */
function unfold() {
  const target = location.hash.length > 1 && byId(decodeURIComponent(location.hash.slice(1)));
  for (let node = target; node; node = node.parentElement) if (node.matches("details")) node.open = true;
}
addEventListener("hashchange", unfold);
unfold();

/* Paper cannot be unfolded. */
const folded = [];
addEventListener("beforeprint", () => {
  for (const details of document.querySelectorAll("details:not([open])")) {
    details.open = true;
    folded.push(details);
  }
});
addEventListener("afterprint", () => { for (const details of folded.splice(0)) details.open = false; });

const wordsOf = (text) => text.toLowerCase().split(/\s+/).filter(Boolean);

/* Requirements and findings. */
{
  const form = byId("filter");
  const items = [...document.querySelectorAll(".filtered")].map((element) => ({
    element,
    finding: element.matches("article"),
    text: `${element.textContent} ${element.dataset.words ?? ""}`.toLowerCase(),
  }));
  const groups = [...document.querySelectorAll("#findings .group, #findings .weight, #matrix tbody")];
  const kept = (item, words, chosen) =>
    chosen.every(([name, value]) => item.element.dataset[name].split("|").includes(value)) &&
    words.every((word) => item.text.includes(word));

  const filter = () => {
    const data = new FormData(form);
    const words = wordsOf(data.get("words"));
    const chosen = ["verdict", "tier", "run"].map((name) => [name, data.get(name)]).filter(([, value]) => value);
    let requirements = 0, findings = 0;
    for (const item of items) {
      const shown = kept(item, words, chosen);
      item.element.hidden = !shown;
      if (shown) item.finding ? (findings += 1) : (requirements += 1);
    }
    for (const group of groups) group.hidden = !group.querySelector(".filtered:not([hidden])");
    byId("nothing-left").hidden = requirements + findings > 0;
    byId("filter-hits").textContent = `${many(requirements, "requirement")}, ${many(findings, "finding")}`;
  };
  form.addEventListener("input", filter);
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("reset", () => setTimeout(filter));
  filter();
}

/* All cases: unpacked when the search is first touched. */
{
  const MOST = 200, BATCH = 20, SLICE = 6;
  const VERDICTS = [["pass", "pass"], ["warn", "warn"], ["fail", "FAIL"]];
  const form = byId("search"), table = byId("hits"), hits = byId("search-hits");
  const body = table.tBodies[0];
  let cases = null, byWorst = null, unpacking = null, turn = 0;

  const unpacked = async () => {
    const packed = Uint8Array.from(atob(byId("packed-cases").textContent.trim()), (c) => c.charCodeAt(0));
    const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
    const runs = JSON.parse(await new Response(stream).text());
    return runs.flatMap((run, place) => run.lines.map((line, at) => {
      const test = run.tests[run.test[at]];
      return {
        line, test, run, place: String(place), verdict: run.verdict[at], drawn: run.drawn[at], worst: run.worst[at],
        text: `${line} ${test}`.toLowerCase(),
      };
    }));
  };

  const score = (one) => one.worst === null ? -1 : typeof one.worst === "number" ? one.worst : Infinity;
  const quoted = (line) => /^[\w@%+=:,./-]+$/.test(line) ? line : `'${line.replaceAll("'", `'"'"'`)}'`;

  const cell = (row, role, ...content) => {
    const td = document.createElement("td");
    td.setAttribute("role", role);
    td.append(...content);
    row.append(td);
    return td;
  };
  const element = (name, css, text) => Object.assign(document.createElement(name), { className: css, textContent: text });

  const shown = (one) => {
    const row = document.createElement("tr");
    row.setAttribute("role", "row");
    const [css, word] = VERDICTS[one.verdict];
    cell(row, "cell", element("span", `badge ${css}`, word));
    cell(row, "cell", element("span", score(one) > 1 ? "over" : "", one.worst ?? "")).className = "number";
    const where = `${one.test}${one.drawn === "1" ? ", generated" : ""}`;
    cell(row, "cell", element("code", "", one.line), " ", element("span", "quiet", where)).className = "sentence";
    const button = element("button", "copy", "Copy");
    button.type = "button";
    button.append(element("span", "unseen", " replay command"));
    commands.set(button, one.run.before + quoted(one.line) + one.run.after);
    cell(row, "cell", button);
    return row;
  };

  /* Which cases are asked for, in which order. */
  const question = () => {
    const data = new FormData(form);
    const words = wordsOf(data.get("words"));
    const verdict = data.get("verdict"), drawn = data.get("drawn"), place = data.get("run") ?? "";
    if (data.get("order")) byWorst ??= [...cases].sort((a, b) => score(b) - score(a));
    return {
      pool: data.get("order") ? byWorst : cases,
      asked: (one) => (!verdict || one.verdict === verdict) && (!drawn || one.drawn === drawn) &&
        (!place || one.place === place) && words.every((word) => one.text.includes(word)),
    };
  };

  /* In slices, a frame each, so that typing never waits; a newer question ends an older one. */
  const search = async () => {
    const own = ++turn, found = [];
    const { pool, asked } = question();
    let count = 0, at = 0, drawn = 0;
    while (at < pool.length || drawn < found.length) {
      for (const end = performance.now() + SLICE; at < pool.length && performance.now() < end;) {
        for (const stop = Math.min(at + 500, pool.length); at < stop; at += 1) {
          if (asked(pool[at]) && ++count <= MOST) found.push(pool[at]);
        }
      }
      const rows = found.slice(drawn, drawn + BATCH).map(shown);
      if (rows.length) drawn ? body.append(...rows) : body.replaceChildren(...rows);
      drawn += rows.length;
      table.hidden = !drawn && at === pool.length;
      await new Promise(requestAnimationFrame);
      if (own !== turn) return;
    }
    table.hidden = count === 0;
    hits.textContent = count === 0 ? "No case has all of this" :
      many(count, "case") + (count > MOST ? `, the first ${MOST} shown` : "");
  };

  const start = () => {
    unpacking ??= (async () => {
      if (!globalThis.DecompressionStream) {
        hits.textContent = "This browser cannot unpack the cases: it lacks DecompressionStream. Use a newer one.";
        return;
      }
      hits.textContent = "Unpacking the cases…";
      try {
        cases = await unpacked();
      } catch (error) {
        hits.textContent = `The cases cannot be unpacked: ${error.message}`;
        return;
      }
      search();
    })();
    return unpacking;
  };

  const again = async () => {
    await start();
    if (cases) search();
  };
  form.addEventListener("focusin", start);
  form.addEventListener("input", again);
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("reset", () => setTimeout(again));
}
