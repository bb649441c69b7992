// The page's own part: which boxes Bokeh draws for the visible span, search, keys, tooltips, light and dark.
(async () => {
  "use strict";
  const data = JSON.parse(document.getElementById("data").textContent);
  const $ = (id) => document.getElementById(id);
  const { span, lanes, counters, tiles } = data;
  const LEAST_PX = 1, LABEL_PX = 34, CHAR_PX = 6.7, MOST_LABELS = 300, FAINT = 0.12;
  const COUNTER = 2, COUNTER_PX = 2;  // lanes of a counter; least width of one of its boxes
  const LANE_PX = 17, AXIS_PX = 30;

  // ---- times as text
  const UNITS = [["s", 1e9], ["ms", 1e6], ["µs", 1e3], ["ns", 1]];
  const unitOf = (ns) => UNITS.find(([, size]) => Math.abs(ns) >= size) ?? UNITS[3];
  const grouped = (value, decimals) =>
    value.toLocaleString("en-US", { minimumFractionDigits: decimals, maximumFractionDigits: decimals });
  const time = (ns) => {
    const [unit, size] = unitOf(ns);
    return `${(ns / size).toLocaleString("en-US", { maximumFractionDigits: size === 1 ? 0 : 3 })} ${unit}`;
  };
  window.labTime = (tick, ticks) => {
    const step = ticks.length > 1 ? Math.abs(ticks[1] - ticks[0]) : Math.abs(tick) || 1;
    const [unit, size] = unitOf(Math.max(...ticks.map(Math.abs)));
    const decimals = Math.max(0, Math.min(9, Math.ceil(-Math.log10(step / size) - 1e-9)));
    return `${grouped(tick / size, decimals)} ${unit}`;
  };

  // ---- Bokeh's models
  let hovered = () => {};
  window.labHover = (indices, geometry) => hovered(indices, geometry);
  window.labZoomTo = (x, y) => zoomTo(x, y);
  const view = await Bokeh.embed.embed_item(data.item);
  const plotView = [...(view.roots ?? view)][0];
  const plot = plotView.model;
  const [store, boxes, texts, fills, inks] = plot.tags;
  const range = plot.x_range;

  // ---- where events come from: the page itself, or tiles, files beside it that are loaded when they are drawn
  // Events of a lane are sorted by start; `reach` is how far those up to each one extend.
  function sourceOf(held) {
    const { start, duration, first } = held;
    const reach = new Float64Array(start.length);
    for (let l = 0; l + 1 < first.length; l++) {
      for (let i = first[l], far = -Infinity; i < first[l + 1]; i++) reach[i] = far = Math.max(far, start[i] + duration[i]);
    }
    return { count: null, covered: null, detail: null, ...held, reach, asked: "", flags: null };
  }
  const TYPES = { B: Uint8Array, H: Uint16Array, I: Uint32Array, d: Float64Array };
  const unpack = (text) => new TYPES[text[0]](Uint8Array.from(atob(text.slice(1)), (c) => c.charCodeAt(0)).buffer);
  function sourceOfTile(held) {
    const told = { labels: held.labels, details: held.details };
    for (const name of ["first", "start", "duration", "role", "label", "detail", "count", "covered"]) {
      if (held[name]) told[name] = unpack(held[name]);
    }
    told.start = Float64Array.from(told.start, (at) => at + held.from);
    return sourceOf(told);
  }
  const MOST_KEPT = 300;
  const nodes = tiles ? tiles.nodes.map(([above, begin, end, pixel]) => ({ above, begin, end, pixel, parts: [] })) : [];
  nodes.forEach((node, number) => { if (node.above >= 0) nodes[node.above].parts.push(number); });
  const kept = new Map(), waiting = new Map();
  let failed = "";
  if (tiles) kept.set("0", sourceOfTile(tiles.root));
  else {
    const first = Uint32Array.from([...lanes.map((line) => line.first), lanes.length ? lanes[lanes.length - 1].last : 0]);
    kept.set("0", sourceOf({ ...store.data, first, labels: data.labels, details: data.details }));
  }
  const whole = kept.get("0");
  window.labTile = (name, held) => {
    kept.set(name, name === "index" ? { ...held, name: unpack(held.name), tile: unpack(held.tile), count: unpack(held.count) } : sourceOfTile(held));
    for (const old of kept.keys()) {
      if (kept.size <= MOST_KEPT) break;
      if (old !== "0" && old !== "index" && old !== name) kept.delete(old);
    }
  };
  function load(name) {
    if (kept.has(name)) return Promise.resolve(kept.get(name));
    if (!waiting.has(name)) {
      waiting.set(name, new Promise((resolve) => {
        const script = document.createElement("script");
        const done = () => { waiting.delete(name); script.remove(); resolve(kept.get(name)); redraw(); };
        script.src = `${encodeURIComponent(tiles.folder)}/${name}.js`;
        script.onload = done;
        script.onerror = () => { failed = `${tiles.folder}/${name}.js is missing: keep that folder beside this page`; done(); };
        document.head.append(script);
      }));
    }
    return waiting.get(name);
  }
  // The tiles that are drawn of a part of the window: [source, begin, end], with those above in place of
  // those that are still on their way.
  function drawnOf(low, high, pixel, number = 0) {
    const node = nodes[number], own = kept.get(String(number));
    if (!node) return [[whole, low, high]];
    if (!node.parts.length || node.pixel <= 1.5 * pixel) return [[own, node.begin, node.end]];
    const found = [];
    for (const part of node.parts) {
      const { begin, end } = nodes[part];
      if (end < low || begin > high) continue;
      if (kept.has(String(part))) found.push(...drawnOf(low, high, pixel, part));
      else {
        if (!failed) load(String(part));
        found.push([own, begin, end]);
      }
    }
    return found;
  }

  // ---- search
  let query = "";
  let matches = [];       // events that match, by time; with tiles: tiles that have some, and how many before
  let total = 0;
  let current = -1;
  const flags = (list) => Uint8Array.from(list, (entry) => (entry.toLowerCase().includes(query) ? 1 : 0));
  function wantedIn(source) {
    if (source.asked !== query) {
      source.asked = query;
      source.flags = query ? [flags(source.labels), flags(source.details)] : null;
    }
    const found = source.flags;
    return found && ((i) => found[0][source.label[i]] | (source.detail ? found[1][source.detail[i]] : 0));
  }
  function matchesIn(source, from = -Infinity) {
    const wanted = wantedIn(source), found = [];
    const named = tiles ? (i) => source.flags[0][source.label[i]] : wanted;
    for (let i = 0; i < source.start.length; i++) if (source.start[i] >= from && named(i)) found.push(i);
    return found.sort((a, b) => source.start[a] - source.start[b]);
  }
  async function search(text) {
    const asked = query = text.trim().toLowerCase();
    matches = [];
    total = 0;
    current = -1;
    if (query && tiles) {
      const index = await load("index");
      if (!index || asked !== query) return redraw();
      const wanted = flags(index.labels), of = new Map();
      for (let k = 0; k < index.name.length; k++) {
        if (wanted[index.name[k]]) of.set(index.tile[k], (of.get(index.tile[k]) ?? 0) + index.count[k]);
      }
      for (const [tile, count] of [...of].sort((a, b) => nodes[a[0]].begin - nodes[b[0]].begin)) {
        matches.push([tile, total]);
        total += count;
      }
    } else if (query) {
      matches = matchesIn(whole);
      total = matches.length;
    }
    tellFound();
    redraw();
  }
  function tellFound() {
    const n = total.toLocaleString("en-US");
    $("found").textContent = failed || (!query ? "" : current < 0 ? `${n} found` : `${(current + 1).toLocaleString("en-US")} of ${n}`);
  }
  async function step(by) {
    if (!total) return;
    current = current < 0 ? (by > 0 ? 0 : total - 1) : (current + by + total) % total;
    tellFound();
    let source = whole, i = matches[current];
    if (tiles) {
      const asked = query, at = current;
      const [tile, before] = matches.findLast(([, many]) => many <= at);
      source = await load(String(tile));
      if (!source || asked !== query || at !== current) return;
      const { above, begin } = nodes[tile];
      i = matchesIn(source, above >= 0 ? begin : -Infinity)[at - before];
      if (i === undefined) return;
    }
    const { start, duration } = source;
    const width = Math.min(range.end - range.start, Math.max(duration[i] * 12, 2000));
    show(start[i] + duration[i] / 2 - width / 2, start[i] + duration[i] / 2 + width / 2);
    const line = lanes[lineOf(source, i)];
    if (line.y < plot.y_range.end || line.y + 1 > plot.y_range.start) down(line.y - rows() / 2, true);
  }

  // ---- level of detail: the boxes of the visible span
  const lineOf = ({ first }, i) => firstAfter(first, 0, first.length, i + 1) - 1;
  function firstAfter(values, low, high, limit) {
    while (low < high) {
      const middle = (low + high) >> 1;
      if (values[middle] < limit) low = middle + 1; else high = middle;
    }
    return low;
  }
  let drawn = [];         // sources with the part that each is drawn in
  const spent = new Float64Array(data.themes.light.fills.length);
  function visible(low, high, pixel) {
    const out = { left: [], right: [], top: [], bottom: [], role: [], alpha: [], index: [], count: [], source: [] };
    drawn = drawnOf(low, high, pixel);
    const earliest = Math.min(...drawn.map(([, begin]) => begin));
    const named = { x: [], y: [], text: [], role: [] };
    let number = 0;       // of the source
    const add = (y, x0, x1, kind, alpha, index, count) => {
      out.left.push(x0); out.right.push(x1); out.top.push(y + 0.06); out.bottom.push(y + 0.94);
      out.role.push(kind); out.alpha.push(alpha); out.index.push(index); out.count.push(count);
      out.source.push(number);
    };
    const narrow = LEAST_PX * pixel;
    const above = plot.y_range.end, below = plot.y_range.start;
    for (const [source, begins, ends] of drawn) {
      const { start, duration, role, label, labels, reach, first, count, covered: spans } = source;
      const wanted = wantedIn(source);
      for (let line = 0; line < lanes.length; line++) {
        const { y } = lanes[line];
        if (y + 1 < above || y > below) continue;
        let merged = -1;      // the last box of joined events
        const stop = firstAfter(start, first[line], first[line + 1], tiles ? Math.min(high, ends) : high);
        let i = firstAfter(reach, first[line], first[line + 1], tiles ? Math.max(low, begins) : low);
        while (i < stop) {
          if (tiles && begins > earliest && start[i] < begins) { i++; continue; }  // drawn with the part before
          if (duration[i] >= narrow && !(count && count[i] > 1)) {
            add(y, start[i], start[i] + duration[i], role[i], !wanted || wanted(i) ? 1 : FAINT, i, 1);
            const room = (Math.min(high, start[i] + duration[i]) - Math.max(low, start[i])) / pixel;
            if (room >= LABEL_PX && (!wanted || wanted(i)) && named.x.length < MOST_LABELS) {
              const text = labels[label[i]], fits = Math.floor((room - 6) / CHAR_PX);
              named.x.push(Math.max(low, start[i])); named.y.push(y + 0.52); named.role.push(role[i]);
              named.text.push(text.length <= fits ? text : text.slice(0, Math.max(1, fits - 1)) + "…");
            }
            i++;
            continue;
          }
          // Narrow ones that begin within one pixel, as one box; so is each that is joined already.
          const begin = start[i], from = i;
          let covered = 0, found = !wanted, most = 0, kind = role[i], end = begin, many = 0;
          spent.fill(0);
          while (i < stop && (i === from || (duration[i] < narrow && start[i] < begin + pixel))) {
            const mine = spans ? spans[i] : duration[i];
            covered += mine;
            many += count ? count[i] : 1;
            end = Math.max(end, start[i] + duration[i]);
            spent[role[i]] += mine + 1e-3;
            if (spent[role[i]] > most) { most = spent[role[i]]; kind = role[i]; }
            if (wanted && !found) found = wanted(i) > 0;
            i++;
          }
          const width = Math.max(pixel, end - begin);
          const share = Math.max(0.3, Math.min(1, Math.round((covered / width) * 6) / 6));
          const alpha = found ? (wanted ? 1 : share) : FAINT;
          if (merged >= 0 && merged === out.left.length - 1 && out.role[merged] === kind && out.alpha[merged] === alpha
              && begin - out.right[merged] < 0.3 * pixel) {
            out.right[merged] = begin + width;
            out.count[merged] += many;
          } else {
            merged = out.left.length;
            add(y, begin, begin + width, kind, alpha, from, many);
          }
        }
      }
      number++;
    }
    // Counters: boxes as high as the mean of the samples under them; index -1, -2 … tells which counter.
    counters.forEach(({ y, values, role: kind }, k) => {
      if (y + COUNTER < above || y > below) return;
      const part = span / values.length, each = Math.max(1, Math.ceil((COUNTER_PX * pixel) / part));
      const stop = Math.min(values.length, Math.ceil(high / part));
      let last = null;
      for (let i = Math.max(0, Math.floor(low / part / each) * each); i < stop; i += each) {
        const some = values.slice(i, i + each).filter((value) => value !== null);
        const mean = some.length ? some.reduce((a, b) => a + b, 0) / some.length : null;
        if (last !== null && last === mean) { out.right[out.right.length - 1] = (i + each) * part; continue; }
        last = mean;
        if (mean === null) continue;
        add(y, i * part, (i + each) * part + 0.5 * pixel, kind, query ? FAINT : 1, -1 - k, mean);
        out.bottom[out.bottom.length - 1] = y + COUNTER - 0.06;
        out.top[out.top.length - 1] = y + COUNTER - 0.06 - (COUNTER - 0.2) * Math.min(mean, 100) / 100;
      }
    });
    return [out, named];
  }

  const plotWidth = () => plotView.frame?.bbox?.width || plot.inner_width || 800;
  const pixelOf = (y) => AXIS_PX + (y - plot.y_range.end) * LANE_PX;
  let pending = false;
  function redraw() {
    if (pending) return;
    pending = true;
    requestAnimationFrame(() => {
      pending = false;
      const low = range.start, high = range.end;
      const [out, named] = visible(low, high, (high - low) / plotWidth());
      for (const name of ["left", "right", "top", "bottom", "role", "alpha"]) out[name] = Float64Array.from(out[name]);
      boxes.data = out;
      texts.data = named;
      if (failed) tellFound();
      $("view").textContent = `${time(high - low)} from ${time(Math.max(0, low))}`;
    });
  }
  range.change.connect(redraw);
  plot.properties.inner_width.change.connect(() => resize());

  // ---- up and down: the plot is as high as the window allows, and shows some of the lanes
  const rows = () => (plot.height - AXIS_PX - 6) / LANE_PX;
  function resize() {
    const room = innerHeight - $("plot").getBoundingClientRect().top - scrollY - $("legend").offsetHeight - 20;
    plot.height = Math.round(Math.min(data.height * LANE_PX + AXIS_PX + 6, Math.max(room, 220)));
    for (const axis of plot.above) axis.ticker.desired_num_ticks = Math.max(3, Math.floor(plotWidth() / 95));
    const scroll = $("scroll");
    scroll.hidden = data.height <= rows() + 0.01;
    scroll.style.height = `${plot.height - AXIS_PX}px`;
    scroll.firstElementChild.style.height = `${data.height * LANE_PX}px`;
    down(plot.y_range.end, true);
  }
  function down(lanesFromTop, absolute = false) {
    const top = Math.max(0, Math.min(data.height - rows(), lanesFromTop + (absolute ? 0 : plot.y_range.end)));
    const moved = Math.abs(top - plot.y_range.end) > 0.01;
    plot.y_range.setv({ start: top + rows(), end: top });
    if (Math.abs($("scroll").scrollTop - top * LANE_PX) > 1) $("scroll").scrollTop = top * LANE_PX;
    place();
    redraw();
    return moved;
  }
  $("scroll").onscroll = () => down($("scroll").scrollTop / LANE_PX, true);
  $("plot").addEventListener("wheel", (event) => {
    if (event.ctrlKey || event.shiftKey || Math.abs(event.deltaY) <= Math.abs(event.deltaX)) return;
    const lines = event.deltaY / (event.deltaMode === 1 ? 1 : LANE_PX);
    if (down(lines)) event.preventDefault();
  }, { passive: false });
  addEventListener("resize", resize);

  // ---- moving
  function show(low, high) {
    const width = Math.min(span * 1.04, Math.max(20, high - low));
    const begin = Math.min(Math.max(low, -0.02 * span), Math.max(1.02 * span - width, -0.1 * span));
    range.setv({ start: begin, end: begin + width });
  }
  const zoom = (factor, at = (range.start + range.end) / 2) =>
    show(at - (at - range.start) * factor, at + (range.end - at) * factor);
  const pan = (share) => show(...[range.start, range.end].map((x) => x + share * (range.end - range.start)));
  const fit = () => show(0, span);
  function zoomTo(x, y) {
    const line = lanes.findIndex((l) => y >= l.y && y < l.y + 1);
    const [source] = drawn.find(([, begin, end]) => x >= begin && x < end) ?? [whole];
    if (line < 0) return zoom(0.5, x);
    const { start, duration, reach, first, count } = source;
    const i = firstAfter(reach, first[line], first[line + 1], x);
    if (i < first[line + 1] && start[i] <= x && !(count && count[i] > 1)) show(start[i] - duration[i] * 0.1, start[i] + duration[i] * 1.1);
    else zoom(0.5, x);
  }
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.id === "search") {
      if (event.key === "Enter") { step(event.shiftKey ? -1 : 1); event.preventDefault(); }
      if (event.key === "Escape") $("plot").focus();
      return;
    }
    const keys = {
      w: () => zoom(0.7), "+": () => zoom(0.7), "=": () => zoom(0.7), s: () => zoom(1 / 0.7), "-": () => zoom(1 / 0.7),
      ArrowUp: () => down(-3), ArrowDown: () => down(3), PageUp: () => down(-rows() * 0.8), PageDown: () => down(rows() * 0.8),
      a: () => pan(-0.2), ArrowLeft: () => pan(-0.2), d: () => pan(0.2), ArrowRight: () => pan(0.2),
      0: fit, Home: fit, n: () => step(1), N: () => step(-1), "/": () => $("search").focus(),
    };
    const action = keys[event.key] ?? keys[event.key.length === 1 && event.key !== "N" ? event.key.toLowerCase() : ""];
    if (action) { action(); event.preventDefault(); }
  });
  $("in").onclick = () => zoom(0.5);
  $("out").onclick = () => zoom(2);
  $("fit").onclick = fit;
  $("next").onclick = () => step(1);
  $("previous").onclick = () => step(-1);
  $("search").oninput = (event) => search(event.target.value);

  // ---- tooltips: texts only, never markup
  const tip = $("tip");
  let mouse = [0, 0];
  $("plot").addEventListener("mousemove", (event) => { mouse = [event.clientX, event.clientY]; });
  $("plot").addEventListener("mouseleave", () => { tip.style.display = "none"; });
  hovered = (indices) => {
    if (!indices.length) { tip.style.display = "none"; return; }
    const at = indices[indices.length - 1];
    const i = boxes.data.index[at], count = boxes.data.count[at];
    const [source] = drawn[boxes.data.source[at]] ?? [whole];
    const { start, duration, label, labels, detail, details } = source;
    const line = i < 0 ? { track: "share of what the GPU can do, mean" } : lanes[lineOf(source, i)];
    const rows = [];
    const row = (tag, name, text) => {
      const element = document.createElement(tag);
      element.className = name;
      element.textContent = text;
      rows.push(element);
    };
    if (i < 0) {
      row("b", "", `${counters[-1 - i].name}: ${count.toLocaleString("en-US", { maximumFractionDigits: 1 })} %`);
      row("div", "", `${time(boxes.data.right[at] - boxes.data.left[at])}, from ${time(boxes.data.left[at])}`);
    } else if (count > 1) {
      row("b", "", `${count.toLocaleString("en-US")} events, ${source.count ? "the longest" : "the first"}: ${labels[label[i]]}`);
      row("div", "", `within ${time(boxes.data.right[at] - boxes.data.left[at])}, from ${time(start[i])}; zoom in to tell them apart`);
    } else {
      row("b", "", labels[label[i]]);
      row("div", "", `${time(duration[i])}, from ${time(start[i])}`);
      if (detail && details[detail[i]]) row("div", "detail", details[detail[i]]);
    }
    row("div", "detail", line.track);
    tip.replaceChildren(...rows);
    tip.style.display = "block";
    const box = tip.getBoundingClientRect();
    tip.style.left = `${Math.max(4, Math.min(mouse[0] + 14, document.documentElement.clientWidth - box.width - 8))}px`;
    tip.style.top = `${mouse[1] + 18 + box.height > innerHeight ? mouse[1] - box.height - 12 : mouse[1] + 18}px`;
  };

  // ---- headings, legend, light and dark
  function place() {
    $("heads").replaceChildren(...data.heads.map(({ y, text }) => {
      const head = document.createElement("div");
      head.textContent = text;
      head.style.top = `${pixelOf(y)}px`;
      head.hidden = y + 0.3 < plot.y_range.end || y > plot.y_range.start;
      return head;
    }));
  }
  let theme = "light";
  function paint(name) {
    theme = name;
    document.documentElement.dataset.theme = name;
    const colors = data.themes[name];
    fills.palette = colors.fills;
    inks.palette = colors.inks;
    plot.setv({ background_fill_color: null, border_fill_color: null, outline_line_color: null });
    for (const axis of [...plot.above, ...plot.below, ...plot.left]) {
      const across = plot.above.includes(axis);
      axis.setv({ axis_line_color: across ? colors.line : null, major_label_text_color: colors.text,
        major_tick_line_color: across ? colors.line : null, minor_tick_line_color: null });
    }
    for (const grid of plot.center) if ("grid_line_color" in grid) grid.grid_line_color = colors.grid;
    $("legend").replaceChildren(...data.legend.map(({ role: number, name: text }) => {
      const item = document.createElement("li"), swatch = document.createElement("i");
      swatch.style.background = colors.fills[number];
      item.append(swatch, text);
      return item;
    }));
  }
  window.labFollowTheme(paint, () => theme);
  resize();
  if (data.view) show(...data.view);
  addEventListener("message", (event) => {
    if (typeof event.data?.labFind === "string") search(event.data.labFind);
  });
  window.labTimeline = { range, show, search, step, visible, boxes, texts, zoomTo, span, kept, waiting };
  document.documentElement.dataset.ready = "true";
})();
