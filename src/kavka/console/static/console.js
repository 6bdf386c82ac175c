// What the pages do by themselves: refresh, charts, the live tail, favourites, keys. Everything works without but these.
"use strict";
(() => {
  const REFRESH_MS = 4000;
  const MOST_ROWS = 500;
  const find = (selector, root = document) => root.querySelector(selector);
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];
  const keep = {
    read(name, otherwise) {
      try { return JSON.parse(localStorage.getItem(name)) ?? otherwise; } catch { return otherwise; }
    },
    write(name, value) {
      try { localStorage.setItem(name, typeof value === "string" ? value : JSON.stringify(value)); } catch { /* not kept */ }
    },
  };

  // -- dark and light
  const isDark = () => (document.documentElement.dataset.theme ??
    (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
  const turn = () => {
    const theme = isDark() ? "light" : "dark";
    document.documentElement.dataset.theme = theme;
    keep.write("kavka-theme", theme);
    charts.forEach((chart) => chart.draw());
  };
  find("#theme")?.addEventListener("click", turn);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => charts.forEach((chart) => chart.draw()));

  // -- where one is, in a menu that is wider than the screen
  const showHere = () => all("nav [aria-current]").forEach((link) => {
    const menu = link.parentElement;
    menu.scrollLeft = link.offsetLeft - menu.offsetLeft - (menu.clientWidth - link.offsetWidth) / 2;
  });
  addEventListener("resize", showHere);

  // -- favourites
  const favourites = () => {
    const kept = keep.read("kavka-favourites", []);
    return Array.isArray(kept) ? kept.filter((name) => /^[a-zA-Z0-9._-]{1,249}$/.test(name)).slice(0, 50) : [];
  };
  const showFavourites = () => {
    const kept = favourites();
    all("[data-star]").forEach((star) => star.setAttribute("aria-pressed", kept.includes(star.dataset.star)));
    const place = find("#favourites");
    if (!place) return;
    all("a", place).forEach((link) => link.remove());
    place.hidden = kept.length === 0;
    for (const name of kept) {
      const link = document.createElement("a");
      link.href = `/topics/${name}`;
      link.textContent = name;
      place.append(link);
    }
  };
  document.addEventListener("click", (event) => {
    const star = event.target.closest?.("[data-star]");
    if (!star) return;
    event.preventDefault();
    const name = star.dataset.star;
    const kept = favourites();
    keep.write("kavka-favourites", kept.includes(name) ? kept.filter((each) => each !== name) : [...kept, name]);
    showFavourites();
  });

  // -- charts
  const sized = (number) => {
    const units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let unit = 0;
    while (Math.abs(number) >= 1024 && unit < units.length - 1) { number /= 1024; unit += 1; }
    return `${number.toFixed(unit && number < 100 ? 1 : 0)} ${units[unit]}`;
  };
  const counted = (number) => {
    const units = ["", "k", "M", "G"];
    let unit = 0;
    while (Math.abs(number) >= 10000 && unit < units.length - 1) { number /= 1000; unit += 1; }
    return `${Number(number.toFixed(number < 10 ? 1 : 0)).toLocaleString("en")}${units[unit]}`;
  };
  const steps = (base, parts) => {
    const found = [];
    for (let power = 1; power < 1e15; power *= base) parts.forEach((part) => found.push(part * power));
    return found;
  };
  class Chart {
    constructor(place) {
      this.place = place;
      this.data = null;
      this.plot = null;
      new ResizeObserver(() => this.plot?.setSize(this.size())).observe(place);
    }
    size() { return { width: Math.max(200, this.place.clientWidth), height: this.place.clientHeight }; }
    async load() {
      const answer = await fetch(`/series?of=${encodeURIComponent(this.place.dataset.series)}`, { headers: { "X-Live": "1" } });
      if (!answer.ok) return;
      this.data = await answer.json();
      this.place.classList.toggle("waiting", this.data[1].filter((number) => number !== null).length < 2);
      if (this.plot) this.plot.setData(this.data); else this.draw();
    }
    draw() {
      if (!this.data || !window.uPlot) return;
      this.plot?.destroy();
      const style = getComputedStyle(document.documentElement);
      const colour = (name) => style.getPropertyValue(name).trim();
      const show = this.place.dataset.unit === "bytes" ? sized : counted;
      const incrs = this.place.dataset.unit === "bytes" ? steps(2, [1]).filter((step) => step >= 256) : steps(10, [1, 2, 5]);
      const clock = (at) => new Date(at * 1000).toISOString().slice(11, 19);
      const axis = { stroke: colour("--soft"), grid: { stroke: colour("--line"), width: 1 }, ticks: { show: false }, font: "12px system-ui, sans-serif" };
      this.plot = new uPlot({
        ...this.size(),
        legend: { show: false },
        cursor: { y: false },
        tzDate: (at) => uPlot.tzDate(new Date(at * 1000), "UTC"),
        scales: { y: { range: (_, low, high) => [0, Math.max(this.place.dataset.unit === "bytes" ? 1024 : 5, (high ?? 0) * 1.1)] } },
        axes: [{ ...axis, size: 28, space: 90, values: (_, ticks) => ticks.map(clock) }, { ...axis, size: 68, space: 34, incrs, values: (_, ticks) => ticks.map(show) }],
        series: [{}, { label: this.place.dataset.names, stroke: colour("--mark"), fill: `${colour("--mark")}22`, width: 2, points: { show: false }, spanGaps: false }],
      }, this.data, this.place);
    }
  }
  const charts = all(".chart").map((place) => new Chart(place));

  // -- pages that go on: what is marked data-live is taken anew out of the same page
  const live = () => all("[data-live]");
  const refresh = async () => {
    if (document.hidden) return;
    await Promise.allSettled(charts.map((chart) => chart.load()));
    if (live().length === 0 || find("dialog[open]")) return;
    const answer = await fetch(location.href, { headers: { "X-Live": "1" } });
    if (answer.status === 401) { location.reload(); return; }
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
    if (find("#error") && !find("#error", fresh)) { location.reload(); return; }
    for (const old of live()) {
      const now = fresh.getElementById(old.id);
      if (now && now.innerHTML !== old.innerHTML && !old.contains(document.activeElement)) old.innerHTML = now.innerHTML;
    }
    showFavourites();
    choose(chosen, false);
  };
  const again = () => setTimeout(() => refresh().catch(() => {}).finally(again), REFRESH_MS);

  // -- the live tail
  const cell = (row, className, text) => {
    const made = row.insertCell();
    made.className = className;
    if (text !== undefined) made.textContent = text;
    return made;
  };
  const datum = (place, decoded) => {
    const made = document.createElement(decoded.kind === "null" || decoded.kind === "empty" ? "span" : "code");
    if (made.tagName === "SPAN") made.className = "faint";
    made.textContent = decoded.snippet;
    place.append(made);
  };
  const opened = (place, record) => {
    const details = document.createElement("details");
    const summary = document.createElement("summary");
    const text = document.createElement("pre");
    datum(summary, record.value);
    text.textContent = record.value.text + (record.value.cut ? "\n…" : "");
    details.append(summary);
    if (record.headers.length) {
      const meta = document.createElement("p");
      meta.className = "meta";
      for (const [name, value] of record.headers) {
        const header = document.createElement("span");
        header.className = "header";
        header.textContent = `${name}: ${value}`;
        meta.append(header);
      }
      details.append(meta);
    }
    details.append(text);
    place.append(details);
  };
  const tail = find("#tail");
  const follow = () => {
    const body = tail.tBodies[0];
    const state = find("#tail-state");
    const pause = find("#pause");
    let count = 0;
    let skipped = 0;
    let source = null;
    const say = (word, kind) => { state.textContent = word; state.className = `state ${kind}`; };
    const add = (record) => {
      const row = body.insertRow(0);
      row.className = "fresh";
      const when = new Date(record.timestamp);
      cell(row, "time", record.timestamp < 0 || isNaN(when) ? "no time" : when.toISOString().replace("T", " ").replace("Z", ""));
      cell(row, "num", record.partition);
      const link = document.createElement("a");
      link.href = `/topics/${tail.dataset.topic}/record?partition=${record.partition}&offset=${record.offset}`;
      link.textContent = record.offset;
      cell(row, "num").append(link);
      datum(cell(row, "key"), record.key);
      const value = cell(row, "value");
      if (record.value.kind === "null" || record.value.kind === "empty") datum(value, record.value); else opened(value, record);
      cell(row, "num", sized(record.value.size));
    };
    const start = () => {
      source = new EventSource(tail.dataset.events);
      source.onopen = () => say("live", "good");
      source.onerror = () => say(source.readyState === EventSource.CLOSED ? "closed by the console" : "connecting again", "busy");
      source.addEventListener("failed", (event) => { say(JSON.parse(event.data), "bad"); source.close(); });
      source.onmessage = (event) => {
        const told = JSON.parse(event.data);
        told.records.forEach(add);
        while (body.rows.length > MOST_ROWS) body.deleteRow(-1);
        count += told.records.length;
        skipped += told.skipped;
        find("#tail-count").textContent = count.toLocaleString("en");
        find("#tail-skipped").textContent = skipped ? `${skipped.toLocaleString("en")} left out: it is faster than eyes` : "";
        find("#tail-empty").hidden = count > 0;
      };
    };
    pause.addEventListener("click", () => {
      const paused = pause.getAttribute("aria-pressed") !== "true";
      pause.setAttribute("aria-pressed", paused);
      pause.textContent = paused ? "Go on" : "Pause";
      if (paused) { source.close(); say("paused", "rest"); } else start();
    });
    addEventListener("pagehide", () => source.close());
    start();
  };

  // -- rows and keys
  let chosen = -1;
  const rows = () => all("tr[data-href]");
  const choose = (index, scroll = true) => {
    const found = rows();
    found.forEach((row) => row.classList.remove("chosen"));
    if (index < 0 || found.length === 0) return;
    if (scroll) document.activeElement?.blur?.();
    chosen = Math.min(Math.max(index, 0), found.length - 1);
    found[chosen].classList.add("chosen");
    if (scroll) found[chosen].scrollIntoView({ block: "nearest" });
  };
  document.addEventListener("click", (event) => {
    if (event.defaultPrevented || event.target.closest("a, button, summary, details, input, select, label")) return;
    const row = event.target.closest("tr[data-href]");
    if (row && getSelection().isCollapsed) location.href = row.dataset.href;
  });
  const places = { o: "/", t: "/topics", g: "/groups", n: "/nodes", s: "/security", p: "/pipelines", i: "/tiers" };
  let going = false;
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, textarea, select, dialog")) return;
    if (going) {
      going = false;
      if (places[event.key]) { event.preventDefault(); location.href = places[event.key]; return; }
    }
    switch (event.key) {
      case "g": going = true; setTimeout(() => { going = false; }, 1200); break;
      case "/": { const search = find("[data-search]"); if (search) { event.preventDefault(); search.focus(); search.select(); } break; }
      case "j": choose(chosen + 1); break;
      case "k": choose(Math.max(0, chosen - 1)); break;
      case "Enter": if (chosen >= 0 && document.activeElement === document.body) location.href = rows()[chosen]?.dataset.href; break;
      case "d": turn(); break;
      case "?": find("#help")?.showModal(); break;
    }
  });
  find("#keys")?.addEventListener("click", () => find("#help").showModal());

  showHere();
  showFavourites();
  if (tail) follow();
  if (charts.length || live().length) { Promise.allSettled(charts.map((chart) => chart.load())); again(); }
})();
